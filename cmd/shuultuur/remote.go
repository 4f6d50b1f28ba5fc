package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"shuultuur/admin/remote"
	"shuultuur/engine/configuration"
)

// tokenVariable is the environment variable with the token for -at. On the
// command line, everybody on the machine could read the token.
const tokenVariable = "SHUULTUUR_TOKEN"

// readAt takes "-at URL" from in front of a command.
func readAt(e env, args []string) (env, []string, error) {
	at, inOne := strings.CutPrefix(args[0], "-at=")
	switch {
	case inOne:
		args = args[1:]
	case args[0] != "-at":
		return e, args, nil
	case len(args) < 2:
		return e, nil, errors.New("-at needs the URL of an admin address")
	default:
		at, args = args[1], args[2:]
	}
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return e, nil, fmt.Errorf("-at %q is not the URL of an admin address: write https://filter.example:8081", at)
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return e, nil, fmt.Errorf("-at %q would send the token unencrypted: write https", at)
	}
	if len(args) == 0 {
		return e, nil, errors.New("-at: name a command behind the URL; \"-at URL help\" lists those that can ask another gateway")
	}
	e.at = &remote.Client{URL: u.Scheme + "://" + u.Host, Token: os.Getenv(tokenVariable), Cert: os.Getenv("SHUULTUUR_CERT")}
	return e, args, nil
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
