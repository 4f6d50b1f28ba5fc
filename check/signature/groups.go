//go:build !small

package signature

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v4"

	"shuultuur/lib/setting"
	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
)

// groups returns the address and port groups: Suricata's names with the gateway's clients as
// HOME_NET, overridden by those of a suricata.yaml, then by those of the settings.
func groups(cfg Config) (vars, ports map[string]string, err error) {
	vars, ports = address.Groups()
	if cfg.Suricata != "" {
		s, err := ReadSuricata(string(cfg.Suricata))
		if err != nil {
			return nil, nil, setting.At("suricata", err)
		}
		maps.Copy(vars, s.Vars)
		maps.Copy(ports, s.Ports)
	}
	maps.Copy(vars, cfg.Vars)
	maps.Copy(ports, cfg.Ports)
	return vars, ports, nil
}

// A Suricata has the settings that are read from a suricata.yaml.
type Suricata struct {
	// Vars and Ports are the groups under vars.
	Vars, Ports map[string]string
	// Off are the features that "requires: feature" must not find: ja3 and ja4, if their
	// fingerprints are disabled.
	Off []string
	// Sets are the datasets under datasets.
	Sets map[string]engine.Set
	// Short says that IPv6 addresses are logged in their short form.
	Short bool
	// Forwarded says that records name the clients of proxies, nil that they do not.
	Forwarded *Forwarded
}

// Forwarded says how records name the clients of proxies (xff).
type Forwarded struct {
	Header string
	// Overwrite replaces the address of the proxy; otherwise the client is named beside it.
	Overwrite bool
	// First takes the first address of the header, not the last.
	First bool
}

// ReadSuricata reads a suricata.yaml.
func ReadSuricata(name string) (*Suricata, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Vars struct {
			Addresses map[string]any `yaml:"address-groups"`
			Ports     map[string]any `yaml:"port-groups"`
		} `yaml:"vars"`
		Sets    map[string]any `yaml:"datasets"`
		Outputs []map[string]struct {
			Compress any       `yaml:"ipv6-compress"`
			XFF      forwarded `yaml:"xff"`
			Types    []any     `yaml:"types"`
		} `yaml:"outputs"`
		App struct {
			Protocols struct {
				TLS struct {
					JA3 any `yaml:"ja3-fingerprints"`
					JA4 any `yaml:"ja4-fingerprints"`
				} `yaml:"tls"`
			} `yaml:"protocols"`
		} `yaml:"app-layer"`
	}
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	text := func(m map[string]any) map[string]string {
		out := map[string]string{}
		for k, v := range m {
			out[k] = fmt.Sprint(v)
		}
		return out
	}
	s := &Suricata{Vars: text(doc.Vars.Addresses), Ports: text(doc.Vars.Ports)}
	s.Sets = readSets(filepath.Dir(name), doc.Sets)
	for _, o := range doc.Outputs {
		eve := o["eve-log"]
		s.Short = s.Short || on(eve.Compress)
		for _, kind := range eve.Types {
			var alert struct {
				Alert struct {
					XFF forwarded `yaml:"xff"`
				} `yaml:"alert"`
			}
			if b, err := yaml.Marshal(kind); err == nil && yaml.Unmarshal(b, &alert) == nil && on(alert.Alert.XFF.Enabled) {
				eve.XFF = alert.Alert.XFF
			}
		}
		if x := eve.XFF; on(x.Enabled) {
			s.Forwarded = &Forwarded{cmp.Or(x.Header, "X-Forwarded-For"), x.Mode == "overwrite", x.Deployment == "forward"}
		}
	}
	for feature, v := range map[string]any{"ja3": doc.App.Protocols.TLS.JA3, "ja4": doc.App.Protocols.TLS.JA4} {
		if word := fmt.Sprint(v); word == "no" || word == "false" || word == "off" {
			s.Off = append(s.Off, feature)
		}
	}
	return s, nil
}

// forwarded is xff of a suricata.yaml.
type forwarded struct {
	Enabled    any    `yaml:"enabled"`
	Mode       string `yaml:"mode"`
	Deployment string `yaml:"deployment"`
	Header     string `yaml:"header"`
}

// on reports whether a value of a suricata.yaml switches something on.
func on(v any) bool {
	word := fmt.Sprint(v)
	return word == "yes" || word == "true" || word == "on"
}

// readSets reads the datasets of a suricata.yaml: their types, and the values of those whose file
// is below its folder.
func readSets(folder string, sets map[string]any) map[string]engine.Set {
	all := map[string]engine.Set{}
	for name, v := range sets {
		m, _ := v.(map[string]any)
		kind, _ := m["type"].(string)
		if kind == "" { // defaults, rules
			continue
		}
		s := engine.Set{Type: kind}
		for _, key := range []string{"load", "state"} {
			if file, _ := m[key].(string); file != "" && rule.CheckName(file) == nil {
				if data, err := rule.ReadBelow(folder, file); err == nil {
					s.Data = data
				}
			}
		}
		all[name] = s
	}
	return all
}
