package importer

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

// settings are the part of our settings an import may write. Unlike the types
// that read them, these leave out what is not given.
type settings struct {
	Listen   listen             `yaml:"listen"`
	Data     string             `yaml:"data"`
	Lists    map[string]listOut `yaml:"lists,omitempty"`
	Checks   checks             `yaml:"checks,omitempty"`
	Policies []policyOut        `yaml:"policies"`
	Identity *identityOut       `yaml:"identity,omitempty"`
	Proxy    map[string]any     `yaml:"proxy,omitempty"`
	Events   map[string]string  `yaml:"events,omitempty"`
	DNS      *dnsOut            `yaml:"dns,omitempty"`
}

// dnsOut is a name server: what programs that answer names are told.
type dnsOut struct {
	Listen  []string            `yaml:"listen,flow"`
	Block   map[string]any      `yaml:"block,flow,omitempty"`
	Hosts   map[string][]string `yaml:"hosts,omitempty"`
	Private []string            `yaml:"private,flow,omitempty"`
	Forward *forwardOut         `yaml:"forward,omitempty"`
}

type forwardOut struct {
	Upstreams []string            `yaml:"upstreams,omitempty"`
	Routes    map[string][]string `yaml:"routes,omitempty"`
	Bootstrap []string            `yaml:"bootstrap,flow,omitempty"`
	Validate  bool                `yaml:"validate,omitempty"`
}

// dns is the name server of the settings, made when it is first needed.
func (s *settings) dns() *dnsOut {
	if s.DNS == nil {
		s.DNS = &dnsOut{Listen: []string{":53"}, Hosts: map[string][]string{}, Forward: &forwardOut{Routes: map[string][]string{}}}
	}
	return s.DNS
}

type listen struct {
	Proxy []string `yaml:"proxy,flow"`
}

type listOut struct {
	Format     string `yaml:"format"`
	Path       string `yaml:"path"`
	Category   string `yaml:"category"`
	Match      string `yaml:"match,omitempty"`
	Subdomains *bool  `yaml:"subdomains,omitempty"`
}

type checks struct {
	Category *categoryCheck `yaml:"category,omitempty"`
	Phrase   *phraseCheck   `yaml:"phrase,omitempty"`
}

type categoryCheck struct {
	Lists []string `yaml:"lists"`
}

type phraseCheck struct {
	Weighted           []string `yaml:"weighted,omitempty"`
	Banned             []string `yaml:"banned,omitempty"`
	Exception          []string `yaml:"exception,omitempty"`
	Compat             string   `yaml:"compat"`
	WeightedPhraseMode *int     `yaml:"weightedphrasemode,omitempty"`
	NaughtynessLimit   int      `yaml:"naughtynesslimit,omitempty"`
	PhraseFilterMode   *int     `yaml:"phrasefiltermode,omitempty"`
	PreserveCase       *int     `yaml:"preservecase,omitempty"`
	HexDecodeContent   *bool    `yaml:"hexdecodecontent,omitempty"`
}

type policyOut struct {
	Name       string    `yaml:"name"`
	Networks   []string  `yaml:"networks,omitempty"`
	Users      []string  `yaml:"users,omitempty"`
	Schedule   []any     `yaml:"schedule,omitempty"`
	SafeSearch bool      `yaml:"safesearch,omitempty"`
	YouTube    string    `yaml:"youtube,omitempty"`
	Rules      []ruleOut `yaml:"rules,omitempty"`
}

type ruleOut struct {
	Name      string            `yaml:"name"`
	Action    string            `yaml:"action"`
	Category  []string          `yaml:"category,flow,omitempty"`
	Over      *int              `yaml:"over,omitempty"`
	Unless    []string          `yaml:"unless,flow,omitempty"`
	Host      []string          `yaml:"host,flow,omitempty"`
	URL       []string          `yaml:"url,omitempty"`
	Extension []string          `yaml:"extension,flow,omitempty"`
	Type      []string          `yaml:"type,flow,omitempty"`
	Header    map[string]string `yaml:"header,omitempty"`
	Agent     []string          `yaml:"agent,omitempty"`
	Referer   []string          `yaml:"referer,flow,omitempty"`
	Search    []string          `yaml:"search,flow,omitempty"`
	Schedule  []any             `yaml:"schedule,omitempty"`
	To        string            `yaml:"to,omitempty"`
	WarnFor   string            `yaml:"warn-for,omitempty"`
}

// window is one window of a schedule; one of DansGuardian's stands as a string.
type window struct {
	Days  string `yaml:"days,omitempty"`
	Hours string `yaml:"hours,omitempty"`
}

type identityOut struct {
	Addresses map[string][]string `yaml:"addresses,omitempty"`
}

func (s *settings) marshal(program, from string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Made of the settings of %s in %q by \"shuultuur import\".\n", program, from)
	fmt.Fprint(&b, "# report.txt and report.html say what was carried over, and what was not.\n\n")
	data, err := yaml.Marshal(s)
	b.Write(data)
	return b.Bytes(), err
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
