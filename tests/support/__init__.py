"""What the tests share: contracts, fake servers, cases, laws of the house."""
