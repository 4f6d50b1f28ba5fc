//go:build !small

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/helper"
)

const squidHelp = `
Answers Squid, which starts it as a helper and writes a line for each question:

  rewrite  url_rewrite_program: where a request goes, in place of squidGuard
  acl      external_acl_type with the format "%>a %#un %>rm %#URI": whether the
           policy lets a request pass, or whether it is in the categories that
           the acl names
  auth     auth_param basic program: whether a password is right
  group    external_acl_type with the format "%un" or "%un %>a": whether a user
           belongs to one of the groups that the acl names

The running gateway is asked over its socket: -socket, or listen.squid of the
settings. Where the settings name no socket, they alone decide: then nothing is
recorded. docs/squid.md has the lines for squid.conf.`

func squidCommand(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "squid", "[flags] rewrite|acl|auth|group", squidHelp)
	config := f.String("config", "", "settings `file` of the gateway")
	socket := f.String("socket", "", "`path` of the socket of the gateway; the settings are not read then")
	down := f.String("down", "", "`URL` that rewrite sends requests to while no gateway answers (default: they pass)")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	kind := f.Arg(0)
	if !slices.Contains(helper.Kinds, kind) {
		fmt.Fprintf(e.stderr, "shuultuur squid: %q is none of %s\n", kind, strings.Join(helper.Kinds, ", "))
		return 2
	}
	at := *socket
	var file string
	if at == "" {
		var err error
		file = askedFile(*config)
		if at, err = configuration.SquidSocket(file); err != nil {
			return fail(e, err)
		}
	}
	var err error
	if at != "" {
		err = helper.Relay(ctx, at, kind, *down, e.stdin, e.stdout)
	} else {
		err = engine.AnswerSquid(ctx, file, kind, e.stdin, e.stdout, slog.New(slog.NewTextHandler(e.stderr, nil)))
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fail(e, err)
	}
	return 0
}
