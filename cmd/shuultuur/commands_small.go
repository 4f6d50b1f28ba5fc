//go:build small

package main

import (
	"context"

	"shuultuur/gateway"
)

// unknownHint is added to the error about an unknown command.
const unknownHint = " in the small build; for others use the full build"

// The small build has no doctor, no manual and none of these commands.

func remark(context.Context, *gateway.Gateway) {}
func teach(*gateway.Gateway)                   {}
func fullCommands() []command                  { return nil }
func eventsCommands() []command                { return nil }
func simulateCommands() []command              { return nil }
func compareCommands() []command               { return nil }
func manualCommands() []command                { return nil }
