//go:build small

package main

// unknownHint is added to the error about an unknown command.
const unknownHint = " in the small build; for others use the full build"

// The small build lacks these commands.

func fullCommands() []command { return nil }

func eventsCommands() []command { return nil }

func simulateCommands() []command { return nil }

func compareCommands() []command { return nil }

func manualCommands() []command { return nil }
