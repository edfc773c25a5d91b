"""python -m evalrun"""

from evalrun.cli import console

if __name__ == "__main__":
    console()
