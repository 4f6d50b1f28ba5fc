package signature

import (
	"fmt"
	"maps"
	"os"

	"go.yaml.in/yaml/v4"

	"shuultuur/check/signature/engine"
	"shuultuur/setting"
)

// groups returns the address and port groups: Suricata's names with the
// gateway's clients as HOME_NET, then those of a suricata.yaml, then those of
// the settings.
func groups(cfg Config, path func(setting.File) string) (vars, ports map[string]string, err error) {
	vars, ports = engine.Groups()
	if cfg.Suricata != "" {
		v, p, err := ReadSuricata(path(cfg.Suricata))
		if err != nil {
			return nil, nil, setting.At("suricata", err)
		}
		maps.Copy(vars, v)
		maps.Copy(ports, p)
	}
	maps.Copy(vars, cfg.Vars)
	maps.Copy(ports, cfg.Ports)
	return vars, ports, nil
}

// ReadSuricata reads the groups under vars of a suricata.yaml.
func ReadSuricata(name string) (vars, ports map[string]string, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, err
	}
	var doc struct {
		Vars struct {
			Addresses map[string]any `yaml:"address-groups"`
			Ports     map[string]any `yaml:"port-groups"`
		} `yaml:"vars"`
	}
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	text := func(m map[string]any) map[string]string {
		out := map[string]string{}
		for k, v := range m {
			out[k] = fmt.Sprint(v)
		}
		return out
	}
	return text(doc.Vars.Addresses), text(doc.Vars.Ports), nil
}
