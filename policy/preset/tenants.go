package preset

import (
	"fmt"
	"slices"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/setting"
)

// Tenants restrict services to accounts of one's own organisation. A header is added to
// requests for the hosts where the service looks for it, so these must be decrypted.
type Tenants struct {
	Microsoft *Microsoft `yaml:"microsoft"`
	Google    []string   `yaml:"google"` // domains of Google Workspace
	Slack     *Slack     `yaml:"slack"`
	Dropbox   []string   `yaml:"dropbox"` // team IDs
}

// Microsoft names the tenants whose accounts may sign in, by domain or ID, and the directory
// ID of the tenant that sets the restriction.
type Microsoft struct {
	Allow   []string `yaml:"allow"`
	Context string   `yaml:"context"`
}

// Slack names the workspaces that may be used, and the one that sets the restriction.
type Slack struct {
	Allow     []string `yaml:"allow"`
	Requester string   `yaml:"requester"`
}

func (p *Presets) addTenants(t *Tenants) error {
	set := func(name string, values ...string) filter.Edit {
		return filter.Edit{Kind: filter.SetHeader, Name: name, Value: strings.Join(values, ",")}
	}
	if err := checkValues(t.Google, "google"); err != nil {
		return err
	}
	if err := checkValues(t.Dropbox, "dropbox"); err != nil {
		return err
	}
	if m := t.Microsoft; m != nil {
		if len(m.Allow) == 0 || m.Context == "" {
			return setting.At("microsoft", fmt.Errorf("both allow (tenants) and context (the directory ID that sets the restriction) are needed"))
		}
		if err := checkValues(append(slices.Clone(m.Allow), m.Context), "microsoft"); err != nil {
			return err
		}
		for _, h := range []string{"login.microsoftonline.com", "login.microsoft.com", "login.windows.net"} {
			p.addHeaders(h, set("Restrict-Access-To-Tenants", m.Allow...), set("Restrict-Access-Context", m.Context))
		}
	}
	if len(t.Google) > 0 {
		p.addHeaders("google.com", set("X-GoogApps-Allowed-Domains", t.Google...))
	}
	if s := t.Slack; s != nil {
		if len(s.Allow) == 0 || s.Requester == "" {
			return setting.At("slack", fmt.Errorf("both allow (workspace IDs) and requester (the one that asks for it) are needed"))
		}
		if err := checkValues(append(slices.Clone(s.Allow), s.Requester), "slack"); err != nil {
			return err
		}
		p.addHeaders("slack.com", set("X-Slack-Allowed-Workspaces-Requester", s.Requester), set("X-Slack-Allowed-Workspaces", s.Allow...))
	}
	if len(t.Dropbox) > 0 {
		p.addHeaders("dropbox.com", set("X-Dropbox-allowed-Team-Ids", t.Dropbox...))
	}
	return nil
}

// checkValues refuses values that would end a header field or form a list.
func checkValues(vs []string, key string) error {
	for i, v := range vs {
		if v == "" || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r == ',' || r >= 0x7f }) {
			return setting.At(fmt.Sprintf("%s[%d]", key, i), fmt.Errorf("%q is not allowed in a header field; write each value separately, without blanks or commas", v))
		}
	}
	return nil
}
