//go:build !small

package main

import (
	"context"

	"shuultuur/load"
)

func loadCommand(_ context.Context, e env, args []string) int {
	return load.Main(args, e.stdout, e.stderr)
}
