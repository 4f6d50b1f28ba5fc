package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"shuultuur/admin/remote"
	"shuultuur/cmd/shuultuur/arguments"
	"shuultuur/engine/configuration"
)

// tokenVariable is the environment variable with the token for -at. On the
// command line, everybody on the machine could read the token.
const tokenVariable = "SHUULTUUR_TOKEN"

// readAt takes "-at URL" from in front of a command.
func readAt(e env, args []string) (env, []string, error) {
	at, args, err := arguments.At(args)
	if at != "" {
		e.at = &remote.Client{URL: at, Token: os.Getenv(tokenVariable), Cert: os.Getenv("SHUULTUUR_CERT")}
	}
	return e, args, err
}

// gateway returns a client of the gateway given by -at, or of the one that runs
// with the settings.
func (e env) gateway(config string) (remote.Client, error) {
	if e.at != nil && config != "" {
		return remote.Client{}, errors.New("-config names a gateway of this machine, and -at another: leave one out")
	}
	if e.at != nil {
		return *e.at, nil
	}
	file := askedFile(config)
	return configuration.Client(file)
}

// needs returns an error if flags were given that -at does not support.
func (e env) needs(f *flag.FlagSet, served ...string) error {
	var other []string
	if e.at != nil {
		f.Visit(func(given *flag.Flag) {
			if !slices.Contains(served, given.Name) {
				other = append(other, "-"+given.Name)
			}
		})
	}
	if len(other) == 0 {
		return nil
	}
	use := "none"
	if len(served) > 0 {
		use = "-" + strings.Join(served, ", -")
	}
	return fmt.Errorf("%s: works on this machine alone; flags that work with -at: %s", strings.Join(other, ", "), use)
}
