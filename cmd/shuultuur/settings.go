//go:build !small

package main

import (
	"context"
	"fmt"

	"shuultuur"
	"shuultuur/engine/configuration"
	"shuultuur/gateway"
)

func teach(g *gateway.Gateway) { g.SetManual(shuultuur.Manual) }

const schemaHelp = `
Prints the JSON schema of the settings file. An editor that knows it completes
keys, says what they mean and marks mistakes; for the YAML language server, keep
it beside the settings and begin these with

  # yaml-language-server: $schema=shuultuur.schema.json`

const saveHelp = `
Has the running gateway check the settings in FILE ("-" for standard input), says
what they would have altered of the last day, and puts them into use. The version
before stays in the history. With -dry-run nothing is saved. Settings that were
changed since they were shown are not overwritten: give the tag that "settings
show -tag" printed, or leave it out to replace what is there.`

// settingsCommands are the subcommands of "shuultuur settings".
func settingsCommands() []command {
	return []command{
		{name: "schema", what: "print the JSON schema of the settings file, for editors", run: settingsSchema, here: ofProcess},
		{name: "show", args: "[-config FILE] [-tag]", what: "print the settings of the running gateway", run: settingsShow},
		{name: "save", args: "[-config FILE] [-dry-run] FILE", what: "check settings, say their effect and put them into use", run: settingsSave},
	}
}

func settingsCommand(ctx context.Context, e env, args []string) int {
	return group(ctx, e, "settings", "Shows and changes the settings of a gateway.", settingsCommands(), args)
}

func settingsSchema(_ context.Context, e env, args []string) int {
	_, parse := flags(e, "settings schema", "", schemaHelp)
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	schema, err := configuration.Schema(shuultuur.Manual)
	if err == nil {
		_, err = fmt.Fprintf(e.stdout, "%s\n", schema)
	}
	return finish(e, err)
}

func settingsShow(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "settings show", "[-config FILE] [-tag]", "\nPrints the settings of the running gateway as they are on its disk.")
	config := f.String("config", "", "settings `file` of the gateway")
	onlyTag := f.Bool("tag", false, "print the tag of the settings, for \"settings save -tag\"")
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	c, err := e.gateway(*config)
	if err != nil {
		return fail(e, err)
	}
	text, tag, err := c.Settings(ctx)
	if err != nil {
		return fail(e, err)
	}
	if *onlyTag {
		fmt.Fprintln(e.stdout, tag)
	} else {
		_, err = e.stdout.Write(text)
	}
	return finish(e, err)
}

// maxSettingsFile is the largest size of settings to send, in bytes.
const maxSettingsFile = 2 << 20

func settingsSave(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "settings save", "[-config FILE] [-dry-run] [-tag TAG] [-reason TEXT] FILE", saveHelp)
	config := f.String("config", "", "settings `file` of the gateway")
	dry := f.Bool("dry-run", false, "say the effect and save nothing")
	tag := f.String("tag", "", "`tag` of the settings that are replaced")
	reason := f.String("reason", "", "reason, for the history, as `text`")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	c, err := e.gateway(*config)
	if err != nil {
		return fail(e, err)
	}
	text, err := e.read(f.Arg(0), maxSettingsFile)
	if err == nil && *tag == "" && !*dry {
		_, *tag, err = c.Settings(ctx)
	}
	if err != nil {
		return fail(e, err)
	}
	if *dry {
		*tag = ""
	}
	s, err := c.SaveSettings(ctx, text, *tag, *reason)
	if err != nil {
		return fail(e, err)
	}
	tellEffect(e, s)
	for _, r := range s.Remarks {
		fmt.Fprintln(e.stdout, printable(r))
	}
	if !*dry {
		fmt.Fprintln(e.stdout, "saved and in use")
	}
	return 0
}
