package icap

import (
	"shuultuur/lib/setting"
)

// Config are the settings of the check.
type Config struct {
	// Servers are the ICAP services, in order of preference, as icap://host:port/service or
	// icaps://host:port/service. One that fails is not used until it answers again.
	Servers     setting.OneOrMore[string] `yaml:"servers" role:"owner"`
	CA          setting.File              `yaml:"ca" role:"owner"` // PEM file with the roots of icaps servers; default the system's
	Requests    bool                      `yaml:"requests"`        // also send requests without a body
	Clients     bool                      `yaml:"clients"`         // send the client's address and user, also to servers that do not ask for them
	Skip        setting.OneOrMore[string] `yaml:"skip"`            // media types of responses that are not sent; default none
	Largest     setting.Size              `yaml:"largest"`         // largest body that is sent, in decoded bytes; default 25 MiB
	Timeout     setting.Duration          `yaml:"timeout"`         // longest wait for a verdict, over all servers; default 30s
	Connect     setting.Duration          `yaml:"connect"`         // longest wait for a connection, and for OPTIONS; default 2s
	Connections setting.Count             `yaml:"connections"`     // to each server; default 32
	Page        string                    `yaml:"page"`            // own or scanner: whose page a refused client gets; default own
}
