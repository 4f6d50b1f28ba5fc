package text

import "strings"

// messages are sentences with values from packages that know no languages: errors, and reasons
// for blocking. {1}, {2} … stand for the values.
var messages = [...]string{
	"write a version, such as the date",
	"this node offers nothing under that name",
	"the list is written, and cannot be used; the log says why",
	"it is no text that a page could edit: change its file",
	"it has {1} bytes, and a page edits up to {2}: change single entries, or its file",
	"it is fetched, and would be overwritten: add a list of your own beside it",
	"another list is being looked at; try again in a moment",
	"the list did not arrive within {1}: try it again, or at another time",
	"there is a list {1} already: give this one another name",
	"it is not there any more; open the rules again",
	"give the group a name",
	"there is a policy {1} already",
	"the settings were changed again meanwhile; go back to a version under Settings",
	"{1} is not a whole number",
	"choose minutes or megabytes a day, or both",
	"{1} is not a time; write it like 08:00",
	"the zone is signed already",
	"no backup of that name is kept here",
	"making the folder of backups: {1}",
	"keeping a backup: {1}",
	"keeping what the backup replaces: {1}",
	"give the first account a password: nobody could sign in otherwise",
	"make your own account first: nobody can be invited without an owner",
	"this invitation was used, was taken back, or has expired: ask for another one",
	"{1} invitations are open: take some back",
	"the parent cannot be asked: {1}",
	"this gateway cannot start again by itself: restart its service",
	"The mail server took the mail to {1} in {2}. Look into that mailbox.",
	"{1} does not answer: {2}",
	"{1} answers for {2} in {3}.",
	"{1} answers in {2}.",
	"{1} finds the test virus EICAR ({2}) in {3}.",
	"The directory has {1}, with {2} groups, in {3}.",
	"no server is named there yet",
	"{1} took the test in {2} ms. Look whether it arrived.",
	"{1} did not take the test: {2}",
	"nobody is told yet: name a mailbox or a webhook under to",
	"starting again: {1}",
	"there is no service {1}; docs/services.md has their names",
	"{1} is closed by the rules of {2}, on which {3} builds: open it there, or switch that rule off here",
	"give names of services as close=NAME, or as open=NAME",
	"they are so already; a rule with further conditions is changed under Rules",
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
	"list {1}: not fetched yet and empty until then",
	"list {1}: its server is being asked; awaited since {2}",
	"{1} lists have not been fetched yet and are empty: {2}",
	"This user may not use port 53: run the gateway as a service, or give it the right to bind low ports.",
	"Port 53 is in use; stop the name server that uses it before the restart: {1}",
	"The state of the fleet cannot be reached.",
	"say who the network is for, and how devices reach the filter",
	"this link is not good, or was used already; the settings are at /settings",
	"404 page not found",
	"{1} is not an address; whose quotas?",
	"{1} is not an address",
	"there is no list with this name",
	"{1}: no event has this ID",
	"no votes are counted here: the settings have no votes, or have them forwarded",
	"{1} is not the time of a pause: write 30s, 5m, 1h, at most {2}, or tomorrow; 0s ends a pause",
	"{1} is not how long it holds: write 15m, 1h or 7d; leave it out for good",
	"who=NAME is missing: an address, a user or a group",
	"url= is missing: which address?",
	"give a name, a group, or both",
	"write the reason, in up to 1000 bytes",
	"whose browsing is it about? name a user or an address",
	"somebody else has to agree: two people are needed",
	"{1}: a person has to do this, not the token of the settings: two people are needed",
	"it is outside the folder of the settings: an owner can name it on the gateway's machine, in the file itself",
	"it names the place of a secret: an owner can name it on the gateway's machine, in the file itself",
	"two people are needed to look into one person's browsing: ask at /looks, and have somebody else agree",
	"two people are needed to erase one person's data: ask for it at /looks, and have somebody else agree",
	"the settings on the disk were changed meanwhile; read them again, so that no change is lost",
	"{1}: only an owner may change this in the settings",
	"whose data? name a user or the address of a device that nobody else uses",
	"choose days, hours, or both",
	"this gateway cannot restore a backup from here",
	"choose the file of a backup",
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
	"there is a zone of that name already",
	"the zone has this record already",
	"the zone was changed meanwhile; read it again, so that no change is lost",
	"this field is empty",
	"{1} is not a host name",
	"{1} is not a number from 0 to {2}",
	"{1} is not a number of seconds",
	"{1} is not a record type",
	"{1} is not a name of this zone, such as www, * or @",
	"this is the last owner: nobody could add another",
	"The vote is too long.",
	"The proxy is busy. Try again in a moment.",
	"The file is too large to be checked before you get it, or too many are being checked.",
	"This page cannot be had in parts.",
	"Please try again later.",
	"The proxy requires you to sign in.",
	"The proxy requires you to sign in. {1}",
	"The proxy does not know you.",
	"The request to the portal cannot be read.",
	"Your password has expired. Change it, and sign in again.",
	"Your password has to be changed before you can sign in.",
	"Your account is disabled or has expired. Ask your administrator.",
	"Your name and password are right, but your groups cannot be found out. Tell your administrator.",
	"The clock of your device is wrong, or that of the proxy. Set it, and try again.",
	"Sign in first, at {1}",
	"The file is no longer here. Download it again.",
	"Tunnels to port {1} are not allowed.",
	"This is a web proxy, not a web site. Enter its address and port in the proxy settings of the browser or the system.",
	"The address has no valid host name.",
	"The request came back to this proxy: a loop.",
	"This is a web site to the browser, not a proxy.",
	"This proxy speaks http and https, not ftp or other schemes.",
	"Requests to port {1} are not allowed.",
	"The proxy lets connections be upgraded to WebSocket only.",
	"The parent proxy refused our credentials.",
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
	"nobody's browsing is shown while that cannot be recorded: {1}",
	"this is about the account of somebody who is signed in: sign in at /login",
	"{1} is not how long the token holds: write 30d",
	"it has ended already: {1}",
	"nothing is watched: name themes under alerts in the settings",
	"no store that can be asked keeps events",
	"no store that can be asked keeps events: name a file at events.sqlite or events.jsonl in the settings",
	"no store that can be asked keeps events, so that what a change does cannot be said",
	"the gateway has no signature rules: its settings have no checks.signature",
	"{1} does not stand in group {2} of the settings",
	"the settings give {1} no address",
	"{1} is none of name, join, leave, move, rename and forget",
	"choose another group",
	"write the new name",
	"the name {1} is taken",
	"rules name {1}, too: {2}; write the new name there first",
	"{1} is not a time of a clock: write 18:30",
	"{1}: give 1 to {2}, or 0 to take back what was given",
	"who gets more time? Name a client, a user or a group",
	"{1} looks after {2}; the time of {3} is for others to give",
	"{1} looks after {2}; {3} is for others",
	"{1} looks after {2}; filtering for {3} is for others to pause",
	"{1} is not a time to look back: write 1h or 7d",
	"{1} is neither allow nor block, nor takes one back",
	"no list has {1} as {2}: something else decided; add the host to a list that a rule allows",
	"no list excepts {1} from {2}",
	"another list is being read; try again in a moment",
	"the list is too long to be read in {1}; ask with shuultuur list lint {2}",
	"the version before cannot be used; the log says why",
	"{1} is neither fetch nor back",
	"{1} is neither look nor erase",
	"there is no change to make",
	"this changes what becomes of the locked list {1}; only an owner may do that",
	"{1} requests wait or hold already",
	"no request {1} waits",
	"a person has to agree, not a program: sign in",
	"no picture is shown while that cannot be recorded: {1}",
	"{1}: give 0 to {2}",
	"{1} is not known",
	"{1} is not the address of a device",
	"what it has sent or stored elsewhere is to be erased there",
	"{1} is in no group that has a role here (access.sign-in.roles); the provider names {2}",
	"somebody else is asking for a report; try again in a moment",
	"format is json, csv or pdf",
	"the record is too long to be read in 30 seconds; ask for a day, a group or a person",
	"no address of this gateway is for other devices: set listen.portal",
	"{1} is neither open, block nor end",
	"reading the answer of the passkey: {1}",
	"{1} pages are live already; close one",
	"{1} is not a version",
	"there is no version {1}",
	"{1} is not how long it holds: write \"1h\" or \"30d\"; leave it out for good",
	"{1} is not the number of a decision",
	"there is no pause for {1}",
	"there are {1} pauses, the most that are possible; end some, or name a network or a group",
	"{1} is not a role: write {2}",
	"{1} cannot be the name of an account: write 1 to {2} bytes without colons, slashes and control characters",
	"the account {1} has no role",
	"the helper {1} looks after no group: name the groups",
	"groups are for helpers; {1} is to be {2}",
	"the groups of {1}: name 1 to {2}",
	"there are {1} accounts already",
	"the first account is an owner's: nobody else could add more",
	"the challenge is not ours or too old: try again",
	"the answer is of type {1}, not {2}",
	"the answer was made for {1}, not for {2}",
	"the passkey is not for {1}",
	"the authenticator did not ask who is there: it needs a PIN, a finger or a face",
	"this passkey is known already",
	"the account has {1} passkeys already",
	"the account has no such passkey",
	"the public key is of a kind that was not offered",
	"the passkey has counted backwards: there may be a copy of it; remove it and make a new one",
	"the password is longer than {1} bytes",
	"the password is too easy to guess: it repeats one character, or is the name",
	"the password is among the most common ones",
	"{1}, which is not of the provider: an owner may remove it",
	"there are {1} sessions already; end some",
	"a token has 1 to 50 scopes: \"read\", \"write\", or a method and path such as \"POST /pause\"",
	"{1} is not a scope: write \"read\", \"write\", or a method and path such as \"POST /pause\"",
	"a token holds for up to {1} days",
	"the purpose of a token has up to 200 bytes",
	"there are {1} tokens already",
	"no secret was offered: begin anew",
	"by={1} is not a field: write client, host, category, rule or user",
	"the settings in use name this person: {1}; remove the name there, and erase again",
	"top={1} is not a number from 1 to {2}, or 0 for so many",
	"this account has one-time codes already: end them first, with the password",
	"{1} is not the code of this moment; is the clock of the device right?",
	"there is no alert with this identifier",
	"the name {1} occurs twice in one object",
	"something follows the JSON value",
	"dry_run: {1} cannot say its effect; nothing was changed",
	"{1} is not what can be done: acknowledged, closed or open",
	"write a note that says how the alert was dealt with",
	"a note has {1} bytes at most",
	"the alert has 100 notes already",
	"keeping the note: {1}",
	"keeping accounts: {1}",
	"the settings or lists cannot be used, the running ones stay: {1}",
	"{1} changed in the settings: that needs a restart",
	"the expectations of policies cannot be checked: {1}",
	"state: Redis has been lost since {1}; this node goes on with what it knows: {2}",
	"an upgrade failed halfway, and what is remembered, votes and the cache on the disk are not kept until a restart: {1}",
	"filtering is paused for {1} until {2}",
	"reports: {1}",
	"lists of extensions, types and searches: {1} odd lines; \"shuultuur check\" names them",
	"dns.forward.upstreams: none is set, and the system names no name server but this one: names that are not answered from here get SERVFAIL; set it to the address of one, such as 9.9.9.9",
	"dns.forward.bootstrap: none is set, and the system names no name server but this one: upstreams with a name cannot be looked up; set it to the address of one, such as 9.9.9.9",
	"phrase lists: {1} odd lines; \"shuultuur check\" names them",
	"votes wait in the log, {1} by now: {2}",
	"records cannot be kept in {1}: {2}",
	"picture list {1} is locked, but its file {2} could not be encrypted: {3}",
	"until {1}",
	"of these lists, {1}",
	"there is no account of that name",
	"the identifier of the passkey has 16 to 1023 bytes",
}

// Message translates a sentence if it is a key or matches one of the messages;
// otherwise it returns it unchanged. Values within it and the part after a
// colon may be messages, too.
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
			pairs = append(pairs, "{"+string(rune('1'+i))+"}", t.isolate(t.message(v, deep-1)))
		}
		return strings.NewReplacer(pairs...).Replace(text)
	}
	if before, after, ok := strings.Cut(english, ": "); ok {
		return before + ": " + t.message(after, deep-1)
	}
	return english
}

// valuesOf returns the values for {1}, {2} … if the sentence matches a message.
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
			if message == next { // the last part must be the end of the sentence
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
