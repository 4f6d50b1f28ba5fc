package cache

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"shuultuur/cache/admission"
	"shuultuur/cache/peer"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
)

// Config are the settings of a Cache. The zero value of each field means its default.
type Config struct {
	Memory setting.Size   `yaml:"memory"`              // objects in memory; default 256MiB
	Disk   setting.Size   `yaml:"disk"`                // objects on the disk; default off
	Folder setting.Folder `yaml:"folder" role:"owner"` // for the disk; default "cache" in the data folder
	Object setting.Size   `yaml:"object"`              // largest object; default 64MiB
	// Admission is the policy of writing to a full disk: s3-fifo (the default), bloom or
	// always.
	Admission string `yaml:"admission"`
	// Wait is how long a request waits for another one in progress for the same object;
	// default 5s.
	Wait setting.Duration `yaml:"wait"`
	// Offline is how long stale objects may be served while origins are unreachable; default
	// 1h.
	Offline setting.Duration `yaml:"offline"`
	// IgnoreQuery lists query parameters that do not change the response; "*" stands for any
	// letters.
	IgnoreQuery []string `yaml:"ignore-query"`
	Rules       []Rule   `yaml:"rules"` // the first that matches applies
	// Purge lists the networks of clients that may remove a URL with the method PURGE, which
	// is then refused to all others. Default none: PURGE goes to origins like any method.
	Purge setting.Networks `yaml:"purge" names:"people"`
	// Peers are nodes that share their objects; default none.
	Peers *peer.Config `yaml:"peers" role:"owner"`
}

// Fixed returns the settings that only a restart changes, because stored objects keep their
// place.
func (cfg *Config) Fixed() any {
	if cfg == nil {
		return nil
	}
	return []any{cfg.Memory, cfg.Disk, cfg.Folder, cfg.Admission, cfg.Peers}
}

// A Rule says how long responses are kept, or that they are not. All its conditions must hold;
// an omitted condition always does.
type Rule struct {
	Host     setting.OneOrMore[string] `yaml:"host"`     // a domain includes everything below it
	Type     setting.OneOrMore[string] `yaml:"type"`     // media type, "image/*"
	Category setting.OneOrMore[string] `yaml:"category"` // of the host
	Method   setting.OneOrMore[string] `yaml:"method"`
	Larger   setting.Size              `yaml:"larger"`  // than this many bytes
	Smaller  setting.Size              `yaml:"smaller"` // than this many bytes

	Store *bool            `yaml:"store"` // false: do not store
	Min   setting.Duration `yaml:"min"`   // minimal lifetime
	Max   setting.Duration `yaml:"max"`   // maximal lifetime
}

// head reports whether all conditions that can be tested before the response hold; undecided,
// that others are left.
func (r *Rule) head(q *message.Request, t *filter.Transaction) (holds, undecided bool) {
	if len(r.Method) > 0 && !contains(r.Method, q.Method) {
		return false, false
	}
	if len(r.Host) > 0 && !below(r.Host, string(q.Host)) {
		return false, false
	}
	if len(r.Category) > 0 && !inCategory(r.Category, t) {
		return false, false
	}
	return true, len(r.Type) > 0 || r.Larger > 0 || r.Smaller > 0
}

// body reports whether the conditions on the response hold. length is negative if unknown.
func (r *Rule) body(s *message.Response, length int64) bool {
	if len(r.Type) > 0 {
		v, _, _ := strings.Cut(string(s.Get("Content-Type")), ";")
		v = strings.ToLower(strings.TrimSpace(v))
		ok := false
		for _, t := range r.Type {
			major, all := strings.CutSuffix(t, "/*")
			ok = ok || t == v || all && strings.HasPrefix(v, major+"/")
		}
		if !ok {
			return false
		}
	}
	return (r.Larger <= 0 || length > int64(r.Larger)) && (r.Smaller <= 0 || length >= 0 && length < int64(r.Smaller))
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if strings.EqualFold(v, s) {
			return true
		}
	}
	return false
}

// below reports whether host is one of the domains or below one.
func below(domains []string, host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, d := range domains {
		if host == d || strings.HasSuffix(host, "."+d) {
			return true
		}
	}
	return false
}

// inCategory reports whether the host of a transaction is in one of the categories.
func inCategory(categories []string, t *filter.Transaction) bool {
	if t == nil {
		return false
	}
	for i := range t.Findings {
		if f := &t.Findings[i]; !f.Wrapped && contains(categories, f.Category) {
			return true
		}
	}
	return false
}

// rule returns the first rule that matches a request and its response, nil for none.
func (c *Cache) rule(q *message.Request, t *filter.Transaction, s *message.Response, length int64) *Rule {
	for i := range c.rules {
		r := &c.rules[i]
		holds, undecided := r.head(q, t)
		if holds && (!undecided || r.body(s, length)) {
			return r
		}
	}
	return nil
}

// neverStores reports whether a rule already decides before the response that nothing is stored.
func (c *Cache) neverStores(q *message.Request, t *filter.Transaction) bool {
	for i := range c.rules {
		r := &c.rules[i]
		holds, undecided := r.head(q, t)
		if holds {
			return !undecided && r.Store != nil && !*r.Store
		}
	}
	return false
}

// Defaults.
const (
	defaultMemory  = 256 << 20
	defaultObject  = 64 << 20
	defaultWait    = 5 * time.Second
	defaultOffline = time.Hour
	leastDisk      = 64 << 20
)

// check finds mistakes, and normalises rules for comparison.
func (cfg *Config) check() error {
	var errs []error
	if _, err := admission.New(cfg.Admission, 16); err != nil {
		errs = append(errs, setting.At("admission", err))
	}
	if cfg.Disk > 0 && cfg.Disk < leastDisk {
		errs = append(errs, setting.At("disk", fmt.Errorf("%v: must be at least 64MiB, or off", cfg.Disk)))
	}
	if cfg.Memory.Or(defaultMemory) < 1<<20 {
		errs = append(errs, setting.At("memory", fmt.Errorf("%v: must be at least 1MiB", cfg.Memory)))
	}
	if cfg.Object.Off() {
		errs = append(errs, setting.At("object", errors.New("off: no object could be stored; give the largest size")))
	}
	if cfg.Peers != nil {
		if err := cfg.Peers.Check(); err != nil {
			errs = append(errs, setting.At("peers", err))
		}
	}
	for i, p := range cfg.IgnoreQuery {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			errs = append(errs, setting.At(fmt.Sprintf("ignore-query[%d]", i), fmt.Errorf("%q is not the name of a parameter", p)))
		}
	}
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		at := func(key string, err error) { errs = append(errs, setting.At(fmt.Sprintf("rules[%d].%s", i, key), err)) }
		for j, h := range r.Host {
			r.Host[j] = strings.ToLower(strings.Trim(h, "."))
		}
		for j, t := range r.Type {
			v, err := filter.MediaType(t)
			if err != nil {
				at("type", err)
			}
			r.Type[j] = v
		}
		for _, m := range r.Method {
			if m == "" || strings.ToUpper(m) != m {
				at("method", fmt.Errorf(`%q is not a method; they are in capitals, like "GET"`, m))
			}
		}
		if r.Smaller > 0 && r.Larger >= r.Smaller {
			at("larger", fmt.Errorf("%v is not less than smaller, %v: no body matches", r.Larger, r.Smaller))
		}
		if r.Max > 0 && r.Min > r.Max {
			at("min", fmt.Errorf("%v is more than max, %v", r.Min, r.Max))
		}
		if r.Store == nil && r.Min <= 0 && r.Max <= 0 {
			at("store", errors.New("the rule needs store, min or max"))
		}
	}
	return errors.Join(errs...)
}
