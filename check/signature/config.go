package signature

import (
	"shuultuur/lib/setting"
	"shuultuur/list/source"
)

// Config are the settings of the check.
type Config struct {
	// Rules are rule files, plain or gzip, tarballs of them, or folders.
	Rules []setting.File `yaml:"rules"`
	// Sources are fetched rule files, by their names.
	Sources map[string]source.Config `yaml:"sources"`
	// Classes is a classification.config: names, texts and priorities of classes. One in a
	// tarball or folder of rules is used without this setting.
	Classes setting.File `yaml:"classes"`
	// Threshold is a threshold.config: threshold, rate_filter and suppress.
	Threshold setting.File `yaml:"threshold"`
	// Enable, Disable, Modify and Drop are files in the syntax of
	// suricata-update that choose and change rules.
	Enable  setting.File `yaml:"enable"`
	Disable setting.File `yaml:"disable"`
	Modify  setting.File `yaml:"modify"`
	Drop    setting.File `yaml:"drop"`
	// Vars are address groups such as HOME_NET, Ports port groups such as HTTP_PORTS.
	// "clients" stands for the client's side of a connection.
	Vars  map[string]string `yaml:"vars"`
	Ports map[string]string `yaml:"ports"`
	// Suricata is a suricata.yaml, from which the groups under vars are read.
	Suricata setting.File `yaml:"suricata"`
	// Body is the number of bytes of a body that rules inspect; default 1MiB.
	Body setting.Size `yaml:"body"`
	// DisableAfter is how often a rule may exceed 1 ms before it is disabled. 0 disables none.
	DisableAfter int `yaml:"disable-after"`
	// Full is for explaining one page, without side effects: datasets are not saved.
	Full bool `yaml:"-"`
}

// ReportAll makes the check report everything it found, to explain one page.
func (c *Config) ReportAll() { c.Full = true }
