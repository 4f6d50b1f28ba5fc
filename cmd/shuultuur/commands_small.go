//go:build small

package main

// fullCommands are those that the small build lacks: none of them is here.
func fullCommands() []command { return nil }

func eventsCommands() []command { return nil }
