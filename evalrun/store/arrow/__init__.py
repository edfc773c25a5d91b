"""Arrow files of any schema: whole files, streams that a kill may cut, columns from Python
lists.
"""
