package resolver

import (
	"encoding/json"
	"fmt"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/setting"
)

// Structured error data (draft-ietf-dnsop-structured-dns-error) is the text of an Extended DNS
// Error as a JSON object: c are contacts, j is the justification, s a code of the reason, o
// the organization. A client requests it with an empty error in its query.

// contacts checks and encodes the contacts of the settings.
func (b *blocker) contacts(cfg Block) (err error) {
	for i, c := range cfg.Contact {
		if scheme, rest, ok := strings.Cut(c, ":"); !ok || rest == "" || scheme != "mailto" && scheme != "tel" && scheme != "sips" && scheme != "https" {
			return setting.At(fmt.Sprintf("contact[%d]", i), fmt.Errorf("%q is not a contact such as mailto:help@example.com or tel:+31201234567", c))
		}
	}
	for _, x := range []struct {
		key  string
		from any
		to   *[]byte
		set  bool
	}{
		{"contact", []string(cfg.Contact), &b.contact, len(cfg.Contact) > 0},
		{"organization", cfg.Organization, &b.organization, cfg.Organization != ""},
	} {
		if !x.set {
			continue
		}
		if *x.to, err = json.Marshal(x.from); err != nil {
			return setting.At(x.key, err)
		}
		if len(*x.to) > maxContact {
			return setting.At(x.key, fmt.Errorf("it has %d bytes; at most %d fit into an answer", len(*x.to), maxContact))
		}
	}
	return nil
}

// maxContact bounds contacts, and the organization, in bytes.
const maxContact = 300

// Codes of reasons, from the registry of the draft's section 11.3.
const (
	reasonMalware  = 1
	reasonPhishing = 2
	reasonSpam     = 3
	reasonSpyware  = 4
	reasonPolicy   = 5 // policy of the network's operator
)

// structured appends the object for a verdict.
func (b *blocker) structured(dst []byte, v *filter.Verdict, id string) []byte {
	dst = append(dst, '{')
	if b.contact != nil {
		dst = append(append(append(dst, `"c":`...), b.contact...), ',')
	}
	dst = append(append(dst, `"j":"`...), v.Action.String()...)
	category := v.Reason.Finding.Category
	dst = appendJSONPart(dst, " category ", category)
	dst = appendJSONPart(dst, " policy ", v.Reason.Policy)
	dst = appendJSONPart(dst, " id ", id)
	dst = append(dst, `","s":`...)
	dst = append(dst, '0'+reasonOf(category))
	if b.organization != nil {
		dst = append(append(dst, `,"o":`...), b.organization...)
	}
	return append(dst, '}')
}

// reasonOf returns the code for a category.
func reasonOf(category string) byte {
	switch category {
	case "malware", "virus":
		return reasonMalware
	case "phishing":
		return reasonPhishing
	case "spam":
		return reasonSpam
	case "spyware", "stalkerware":
		return reasonSpyware
	}
	return reasonPolicy
}

// appendJSONPart appends part of a text, escaped for a JSON string.
func appendJSONPart(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	quoted, err := json.Marshal(value[:min(len(value), maxPart)])
	if err != nil { // strings never fail
		return dst
	}
	return append(append(dst, name...), quoted[1:len(quoted)-1]...)
}
