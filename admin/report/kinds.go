package report

import (
	"strings"

	"shuultuur/text"
)

// kinds are the names of categories as people say them. Several lists call the same by different names.
var kinds = map[string]string{
	"ads": text.Mark("Advertising"), "tracking": text.Mark("Tracking"),
	"adult": text.Mark("Pornography"), "porn": text.Mark("Pornography"), "explicit": text.Mark("Pornography"), "dating": text.Mark("Dating"),
	"gambling": text.Mark("Gambling"), "games": text.Mark("Games"), "gaming": text.Mark("Games"),
	"video": text.Mark("Video"), "streaming": text.Mark("Video"), "music": text.Mark("Music"),
	"social": text.Mark("Social networks"), "social-networks": text.Mark("Social networks"), "social_networks": text.Mark("Social networks"),
	"drugs": text.Mark("Drugs"), "violence": text.Mark("Violence and weapons"), "weapons": text.Mark("Violence and weapons"),
	"malware": text.Mark("Malware"), "virus": text.Mark("Malware"), "phishing": text.Mark("Phishing and fraud"), "scams": text.Mark("Phishing and fraud"),
	"doh": text.Mark("Hidden name servers"), "proxies": text.Mark("Ways around the filter"), "proxy": text.Mark("Ways around the filter"), "vpn": text.Mark("Ways around the filter"),
	"quota": text.Mark("Time or data used up"), "unread": text.Mark("Could not be read"),
	"ruling": text.Mark("Allowed and blocked"), "bonus": text.Mark("More time"), "pause": text.Mark("Pauses"), // what the gateway notes of people who run it
	"self-signed": text.Mark("Faulty certificates"), "wrong-host": text.Mark("Faulty certificates"), "expired": text.Mark("Faulty certificates"), "unknown-root": text.Mark("Faulty certificates"), "revoked": text.Mark("Faulty certificates"),
}

// KindName returns the name of a category in the language of t. A category of one's own has the name
// that it was given.
func KindName(t *text.Texts, category string) string {
	if name := kinds[strings.ToLower(category)]; name != "" {
		return t.Say(name)
	}
	return category
}
