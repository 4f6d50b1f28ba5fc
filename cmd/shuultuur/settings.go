//go:build !small

package main

import (
	"context"
	"fmt"
	"shuultuur/configuration"

	"shuultuur"
)

const settingsHelp = `
schema prints the JSON schema of the settings file. An editor that knows it
completes keys, says what they mean and marks mistakes; for the YAML language
server, keep it beside the settings and begin these with

  # yaml-language-server: $schema=shuultuur.schema.json`

func settingsCommand(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "settings", "schema", settingsHelp)
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	if f.NArg() != 1 || f.Arg(0) != "schema" {
		f.Usage()
		return 2
	}
	schema, err := configuration.Schema(shuultuur.Manual)
	if err == nil {
		_, err = fmt.Fprintf(e.stdout, "%s\n", schema)
	}
	if err != nil {
		return fail(e, err)
	}
	return 0
}
