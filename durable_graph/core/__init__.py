"""The engine without effects: what a run decides, as plain functions of what it was told.

Nothing here starts an OS thread, awaits, reads a clock, a random number or the environment, or talks to storage.
The mailbox is the only way in (`mail`), effects are the only way out (`effects`); `scripts` say in which order,
`run` says what.
"""
