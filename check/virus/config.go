package virus

import (
	"shuultuur/lib/setting"
)

// Config are the settings of the check.
type Config struct {
	// Clamd are the addresses of scanners: the path of a unix socket, or host:port. They are
	// tried in order; one that fails is not used until it answers a probe, and one that lacks
	// memory or disk is tried after the others for a while.
	Clamd setting.OneOrMore[string] `yaml:"clamd" role:"owner"`
	// Hashes are files with a SHA-256 in hexadecimal on each line, followed by a blank and a
	// name.
	Hashes  setting.OneOrMore[setting.File] `yaml:"hashes"`
	Skip    setting.OneOrMore[string]       `yaml:"skip"`    // media types that are not scanned; default image/*, audio/* and video/*
	Timeout setting.Duration                `yaml:"timeout"` // longest scan; default 30s
	// Connections are those to each scanner at a time; default 32. Bodies that are still arriving
	// have half of them, and those of one client three quarters of that half.
	Connections setting.Count    `yaml:"connections"`
	Sessions    setting.Count    `yaml:"sessions"` // connections kept to each scanner, for 5 s each; default 8
	Remember    setting.Duration `yaml:"remember"` // how long verdicts are remembered; default 1h
	Largest     setting.Size     `yaml:"largest"`  // largest body that is scanned, in decoded bytes; default 64 MiB
}
