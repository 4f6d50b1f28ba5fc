package signature

import (
	"time"

	"shuultuur/list/source"
	"shuultuur/setting"
)

// Config are the settings of the check.
type Config struct {
	// Rules are rule files, plain or gzip, tarballs of them, or folders.
	Rules []setting.File `yaml:"rules"`
	// Sources are such files that are fetched, by names of their own.
	Sources map[string]source.Config `yaml:"sources"`
	// Classes is a classification.config: names, texts and priorities of
	// classes. One in a tarball or folder of rules is found by itself.
	Classes setting.File `yaml:"classes"`
	// Threshold is a threshold.config: threshold, rate_filter and suppress.
	Threshold setting.File `yaml:"threshold"`
	// Enable, Disable, Modify and Drop are files in the syntax of
	// suricata-update that choose and change rules.
	Enable  setting.File `yaml:"enable"`
	Disable setting.File `yaml:"disable"`
	Modify  setting.File `yaml:"modify"`
	Drop    setting.File `yaml:"drop"`
	// Vars are address groups such as HOME_NET, Ports port groups such as
	// HTTP_PORTS. "clients" stands for the side that asks.
	Vars  map[string]string `yaml:"vars"`
	Ports map[string]string `yaml:"ports"`
	// Suricata is a suricata.yaml, of which the groups under vars are read.
	Suricata setting.File `yaml:"suricata"`
	// Body is how many bytes of a body rules see: 1MiB unless set.
	Body setting.Size `yaml:"body"`
	// DisableAfter is how often a rule may take more than its 1 ms until it is
	// disabled. 0 disables none.
	DisableAfter int `yaml:"disable-after"`
	// Full is for the explanation of one page, which leaves no traces: datasets
	// are not saved.
	Full bool `yaml:"-"`
}

// Parts are what the check is made of besides its settings.
type Parts struct {
	// Previous is the check that this one takes the place of, nil for none. What
	// its rules remember goes on, and what they have cost is shown beside.
	Previous *Check
	Now      func() time.Time
	Data     string // folder of what is fetched
}
