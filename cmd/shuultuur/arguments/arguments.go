// Package arguments reads what was typed behind a command.
//
// [At] takes the gateway to ask from in front of a command. [Parse] parses flags wherever they stand,
// and [Hint] and [MeantFlag] say what a misspelt word resembles.
package arguments

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"shuultuur/lib/setting"
)

// At takes "-at URL" from in front of a command, and returns the URL of the admin address, "" if no
// other gateway is to be asked.
func At(args []string) (at string, rest []string, err error) {
	at, inOne := strings.CutPrefix(args[0], "-at=")
	switch {
	case inOne:
		args = args[1:]
	case args[0] != "-at":
		return "", args, nil
	case len(args) < 2:
		return "", nil, errors.New("-at needs the URL of an admin address")
	default:
		at, args = args[1], args[2:]
	}
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return "", nil, fmt.Errorf("-at %q is not the URL of an admin address: write https://filter.example:8081", at)
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return "", nil, fmt.Errorf("-at %q would send the token unencrypted: write https", at)
	}
	if len(args) == 0 {
		return "", nil, errors.New("-at: name a command behind the URL; \"-at URL help\" lists those that can ask another gateway")
	}
	return u.Scheme + "://" + u.Host, args, nil
}

// Hint returns a hint that names what a misspelt name resembles, or "".
func Hint(name string, names []string) string {
	if n := setting.Nearest(name, names); n != "" {
		return fmt.Sprintf("; did you mean %q?", n)
	}
	return ""
}

// Add returns the function for a flag that may be repeated.
func Add(list *[]string) func(string) error {
	return func(s string) error { *list = append(*list, s); return nil }
}

// MeantFlag returns a line with the flag that the first misspelt one of args resembles, or "".
func MeantFlag(f *flag.FlagSet, args []string) string {
	names := []string{"help"}
	f.VisitAll(func(x *flag.Flag) { names = append(names, x.Name) })
	for _, a := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch {
		case a == "--":
			return ""
		case !strings.HasPrefix(a, "-") || name == "" || name == "h" || slices.Contains(names, name):
			continue
		}
		if n := setting.Nearest(name, names); n != "" {
			return fmt.Sprintf("did you mean -%s?\n", n)
		}
	}
	return ""
}

// Parse parses flags before, between and after other arguments. Nothing after "--" is a flag.
func Parse(f *flag.FlagSet, args []string) error {
	var plain []string
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			return err
		}
		left := f.Args()
		if parsed := len(args) - len(left); parsed > 0 && args[parsed-1] == "--" {
			plain = append(plain, left...)
			break
		}
		if len(left) == 0 {
			break
		}
		plain, args = append(plain, left[0]), left[1:]
	}
	return f.Parse(append([]string{"--"}, plain...))
}
