package mail

import "shuultuur/lib/setting"

// A Config sets the server that sends mail.
type Config struct {
	// Server is smtp://host:587, which is encrypted if the server offers that, and
	// always before a password is sent; or smtps://host:465.
	Server   string       `yaml:"server" secret:"url"`
	From     string       `yaml:"from"` // the sender's address: filter@school.example
	User     string       `yaml:"user"` // user name at the server; "" for none
	Password string       `yaml:"password" secret:"yes"`
	Token    setting.File `yaml:"token"` // file with an OAuth 2.0 access token that another program renews, for XOAUTH2 in place of a password
	Name     string       `yaml:"name"`  // introduces this machine to the server; default its full name, or its address
	CA       setting.File `yaml:"ca"`    // PEM file with the roots of the server's certificate; default the system's
}
