package text

import "strings"

// messages are sentences with values in them that parts of the program make
// which know nothing of languages: errors, and why something is blocked. {1},
// {2} … stand for the values.
var messages = [...]string{
	"The certificate of {1} has been revoked by those who issued it, perhaps because its key was stolen. Whoever answers may not be {2}.",
	"{1} vouches only for itself: nobody else confirms that it is the real one.",
	"The certificate of {1} was issued by an authority that is not trusted here.",
	"{1} does not send all that is needed to check its certificate, and the missing part could not be fetched. The server is set up wrongly.",
	"The certificate of {1} was issued against the rules that its issuer is bound to.",
	"The server that answered has a certificate for other names than {1}.",
	"The certificate of {1} has expired, and nothing confirms any more that it is the real one.",
	"The certificate of {1} is not valid yet. Its clock or ours is wrong.",
	"The certificate of {1} is protected by cryptography that can be broken today.",
	"The certificate of {1} could not be verified.",
	"more than {1} requests in {2} were made",
	"more than {1} queries in {2} were made",
	"the {1} a day for everything are used up",
	"the {1} a day for {2} are used up",
	"Name {1} as the HTTP proxy of a browser, and open a page that is to be blocked.",
	"Name {1} as the name server of a device or of the router.",
	"Watch the record: each request appears there as it comes.",
	"The proxy takes connections at {1}.",
	"The proxy takes no connections: {1}",
	"Port 53 is free for the name server.",
	"This browser comes through the proxy.",
	"Nothing of this browser has come through the proxy yet: name the proxy in its settings, and open any page.",
	"This browser trusts the certificate.",
	"This browser has opened no encrypted page with the certificate yet: install it, and open one.",
	"list {1}: not fetched yet, and empty until it is",
	"{1} lists are not fetched yet, and empty until they are: {2}",
	"Port 53 is not for this user: run the gateway as a service, or give it the right to bind low ports.",
	"Port 53 is taken; end the name server that has it before the restart: {1}",
	"The state of the fleet is out of reach.",
	"say who the network is for, and how devices reach the filter",
	"this link is not good, or was used already; the settings are at /settings",
	"404 page not found",
	"{1} is not an address; whose quotas?",
	"{1} is not an address",
	"there is no list of that name",
	"{1}: no event has this ID",
	"no votes are counted here: the settings have no votes, or have them forwarded",
	"{1} is not how long to rest: write 30s, 5m, 1h, at most {2}, or tomorrow; 0s ends a pause",
	"{1} is not how long it holds: write 15m, 1h or 7d; leave it out for good",
	"who=NAME is missing: an address, a user or a group",
	"url= is missing: which address?",
	"give a name, a group, or both",
	"write the reason, in up to 1000 bytes",
	"whose browsing is it about? name a user or an address",
	"somebody else has to agree: two people are needed",
	"two people are needed to look into one person's browsing: ask at /looks, and have somebody else agree",
	"the settings on the disk were changed meanwhile; read them again, so that no change is lost",
	"whose data? name a user or the address of a device that nobody else uses",
	"choose days, hours, or both",
	"the record is too long to be read in {1}; ask for less, or with shuultuur events",
	"somebody else is asking for the statistics; try again in a moment",
	"sign in at /login, or send a token",
	"this is for the role {1} or one above it; {2} has the role {3}",
	"the list was fetched, but cannot be used; the log says why",
	"there is no such picture any more",
	"the name, the password or the code is wrong",
	"the password is right; this account needs a one-time code as well",
	"too many wrong passwords for this account; wait some minutes",
	"the password has {1} characters: {2} or more are needed",
	"there is an account of that name",
	"this is the last owner: nobody could add another",
	"The vote is too long.",
	"The proxy has too much to look at. Try again in a moment.",
	"The file is too large to be checked before you get it, or too many are being checked.",
	"This page cannot be had in parts.",
	"Please try again later.",
	"The proxy wants to know who you are.",
	"The proxy wants to know who you are. {1}",
	"The proxy does not know you.",
	"Sign in first, at {1}",
	"The file is no longer here. Download it again.",
	"Tunnels to port {1} are not allowed.",
	"This is a web proxy, not a web site. Enter its address and port in the proxy settings of the browser or the system.",
	"The address has no valid host name.",
	"The request came back to this proxy: a loop.",
	"This is a web site to the browser, not a proxy.",
	"This proxy speaks http only; for https the browser has to ask for a tunnel.",
	"Requests to port {1} are not allowed.",
	"The proxy lets connections be upgraded to WebSocket only.",
	"The proxy behind this one refused our credentials.",
	"The server switched protocols without being asked.",
	"The server switched protocols in a way that cannot be passed on.",
	"This address cannot be reached through the proxy: {1}.",
	"There is no host of this name.",
	"The name of the host could not be looked up.",
	"The server sent an invalid response: {1}.",
	"The server asks for a certificate of the client, which the proxy cannot present. The network's administrator can let this site through undecrypted.",
	"The server and the proxy could not agree on a secure connection. The network's administrator can let it through undecrypted.",
	"The server and the proxy could not agree on a secure connection. If the server is old, the network's administrator can allow old TLS for it.",
	"The server did not answer in time.",
	"The server refused the connection.",
	"The server closed the connection before its answer was complete.",
	"The server closed the connection without an answer.",
	"The server cannot be reached.",
	"The body of the request is malformed: {1}.",
	"The request is malformed: {1}.",
	"The request did not arrive in time.",
}

// Message returns a sentence in the language of t, if it is a key or one of the
// messages, else as it is. A value within it and what stands behind a colon may
// be messages, too.
func (t *Texts) Message(english string) string {
	if t == nil || t.Lang == source {
		return english
	}
	return t.message(english, 3)
}

func (t *Texts) message(english string, deep int) string {
	if text := t.of[english]; text != "" {
		return text
	}
	if deep == 0 {
		return english
	}
	for _, m := range messages {
		text := t.of[m]
		if text == "" {
			continue
		}
		values, ok := valuesOf(m, english)
		if !ok {
			continue
		}
		var pairs []string
		for i, v := range values {
			pairs = append(pairs, "{"+string(rune('1'+i))+"}", t.message(v, deep-1))
		}
		return strings.NewReplacer(pairs...).Replace(text)
	}
	if before, after, ok := strings.Cut(english, ": "); ok {
		return before + ": " + t.message(after, deep-1)
	}
	return english
}

// valuesOf returns what stands in a sentence for {1}, {2} … of a message, if the
// sentence is that message.
func valuesOf(message, sentence string) (values []string, ok bool) {
	for {
		before, rest, more := strings.Cut(message, "{")
		if !more {
			return values, sentence == message
		}
		if sentence, ok = strings.CutPrefix(sentence, before); !ok {
			return nil, false
		}
		_, message, _ = strings.Cut(rest, "}")
		end := len(sentence)
		if next, _, _ := strings.Cut(message, "{"); next != "" {
			if message == next { // the last: the sentence ends so
				if !strings.HasSuffix(sentence, next) {
					return nil, false
				}
				end = len(sentence) - len(next)
			} else if end = strings.Index(sentence, next); end < 0 {
				return nil, false
			}
		}
		if end == 0 {
			return nil, false
		}
		values, sentence = append(values, sentence[:end]), sentence[end:]
	}
}
