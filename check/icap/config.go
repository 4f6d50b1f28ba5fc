package icap

import (
	"shuultuur/setting"
)

// Config are the settings of the check.
type Config struct {
	// Servers are the services that are asked, in order, as
	// icap://host:port/service or icaps://host:port/service. One that fails is
	// left out until it answers again.
	Servers     setting.OneOrMore[string] `yaml:"servers"`
	CA          setting.File              `yaml:"ca"`          // PEM file with the roots of icaps servers; default the system's
	Requests    bool                      `yaml:"requests"`    // requests without a body are asked about too
	Clients     bool                      `yaml:"clients"`     // say who asks, also to servers that do not ask for it
	Skip        setting.OneOrMore[string] `yaml:"skip"`        // media types of responses that are not sent; default none
	Largest     setting.Size              `yaml:"largest"`     // decoded bytes of a body that is sent; default 25 MiB
	Timeout     setting.Duration          `yaml:"timeout"`     // longest wait of a message, with all servers; default 30s
	Connect     setting.Duration          `yaml:"connect"`     // longest wait for a connection and for OPTIONS; default 2s
	Connections setting.Count             `yaml:"connections"` // to each server; default 32
	Page        string                    `yaml:"page"`        // own or scanner: whose page a refused client gets; default own
}
