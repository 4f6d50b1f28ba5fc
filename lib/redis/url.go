package redis

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// ParseURL returns the settings that reach a server at host:port, or at
// redis[s]://[user[:password]@]host[:port][/db].
func ParseURL(at string) (Config, error) {
	var s Config
	if !strings.Contains(at, "://") {
		s.Addresses = []string{at}
		return s, nil
	}
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" {
		return s, fmt.Errorf("%q is not host:port or redis://host:port/db", at[strings.LastIndex(at, "@")+1:])
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	s.Addresses = []string{u.Hostname() + ":" + port}
	if strings.Contains(u.Hostname(), ":") {
		s.Addresses = []string{"[" + u.Hostname() + "]:" + port}
	}
	s.Username = u.User.Username()
	s.Password, _ = u.User.Password()
	if db := strings.Trim(u.Path, "/"); db != "" {
		if s.DB, err = strconv.Atoi(db); err != nil {
			return s, fmt.Errorf("%q is not the number of a database", db)
		}
	}
	if u.Scheme == "rediss" {
		s.TLS = &TLS{}
	}
	return s, nil
}
