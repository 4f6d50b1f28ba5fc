package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/test/race"
)

// invalid has settings with one mistake each. Each entry replaces or adds a line of settings
// that are otherwise good.
const invalid = `
listen: {proxy: 127.0.0.1}
listen: {proxy: "127.0.0.1:99999"}
listen: {proxy: "127.0.0.1:http!"}
listen: {proxy: "127.0.0.1:-1"}
listen: {proxy: {a: b}}
listen: {proxy: "gateway.example:8080"}
listen: {proxy: "127.0.0.1:7", admin: "127.0.0.1:7"}
listen: {proxy: ":7", transparent: "127.0.0.1:7"}
listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1"}
listen: {proxy: "127.0.0.1:0", token: short}
listen: {proxy: "127.0.0.1:0", tls: {cert: none.pem, key: none.pem}}
listen: {proxy: "127.0.0.1:0", tls: {cert: ., key: .}}
listen: {proxy: "127.0.0.1:0", tls: {cert: passwords/x.pem, key: passwords/x.pem}}
listen: {prxoy: "127.0.0.1:0"}
datta: data
data: [a]
lists: {own: {format: xml, path: own.txt}}
lists: {own: {path: nothing.txt}}
lists: {own: {}}
lists: {own: {path: own.txt, match: regexp}}
lists: {own: {path: own.txt, charset: klingon}}
lists: {own: {path: own.txt, url: "http://lists.example/"}}
lists: {own: {url: "ftp://lists.example/"}}
lists: {own: {source: no-such-source}}
lists: {own: {url: "http://lists.example/", every: 1s}}
lists: {own: {url: "http://lists.example/", every: soon}}
lists: {own: {url: "http://lists.example/", shrink: 200%}}
lists: {own: {url: "http://lists.example/", sha256: abc}}
lists: {own: {url: "http://lists.example/", minimum: -1}}
lists: {"a/b": {path: own.txt}}
lists: {own: {path: own.txt, colour: red}}
lists: [own]
checks: {category: {lists: [nowhere]}}
checks: {category: {lists: own.txt}}
checks: {category: {lists: [], unknown-page: somewhere}}
checks: {phrase: {banned: [nothing.list]}}
checks: {phrase: {compat: e2guardian-9}}
checks: {phrase: {weightedphrasemode: 7}}
checks: {phrase: {naughtynesslimit: -1}}
checks: {phrase: {phrasefiltermode: 9, compat: dansguardian}}
checks: {phrase: {preservecase: 1}}
checks: {phrases: {}}
policies: [{rules: []}]
policies: [{name: a, rules: []}, {name: a, rules: []}]
policies: [{name: a, networks: [300.0.0.0/8]}]
policies: [{name: a, networks: [10.0.0.1/8x]}]
policies: [{name: a, groups: [nobody]}]
policies: [{name: a, schedule: {days: mon-frx}}]
policies: [{name: a, schedule: {hours: "25:00-26:00"}}]
policies: [{name: a, schedule: {zone: Mars/Olympus}}]
policies: [{name: a, rules: [{action: block, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, action: stop, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, action: block, category: [unheard-of]}]}]
policies: [{name: a, rules: [{name: r, action: block, url: ["("]}]}]
policies: [{name: a, rules: [{name: r, action: block, agent: ["["]}]}]
policies: [{name: a, rules: [{name: r, action: block, host: ["a b"]}]}]
policies: [{name: a, rules: [{name: r, action: block, header: {X: "("}}]}]
policies: [{name: a, rules: [{name: r, action: block, type: ["html"]}]}]
policies: [{name: a, rules: [{name: r, action: block, extension: ["@nothing"]}]}]
policies: [{name: a, rules: [{name: r, action: block, query: [NOTYPE]}]}]
policies: [{name: a, rules: [{name: r, action: block, ja4: [x]}]}]
policies: [{name: a, rules: [{name: r, action: redirect, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, action: block, over: -1, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, action: warn, warn-for: -1s, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, action: block, answer: hole, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, action: block, schedule: {days: never}}]}]
policies: [{name: a, decrypt: true}]
policies: [{name: a, decrypt: maybe}]
policies: [{name: a, patience: forever}]
policies: [{name: a, limits: [{requests: 100}]}]
policies: [{name: a, limits: [{requests: 100/1m, by: town}]}]
policies: [{name: a, limits: [{by: client}]}]
policies: [{name: a, limits: [{requests: 0/1m}]}]
policies: [{name: a, quotas: [{}]}]
policies: [{name: a, quotas: [{time: 25h}]}]
policies: [{name: a, quotas: [{bytes: 5xB}]}]
policies: [{name: a, learn: 1x}]
policies: [{name: a, warn-on-loss: perhaps}]
policies: [{name: a, youtube: harsh}]
policies: [{name: a, safesearch: google}]
policies: [{name: a, dns: {answer: whatever}}]
policies: [{name: a, dns: {error: unknown}}]
policies: [{name: a, dns: {drop: [h9]}}]
policies: [{name: a, rule: []}]
policies: {name: a}
identity: {addresses: {anna: [x]}}
identity: {addresses: {anna: [10.0.0.1], ben: [10.0.0.1]}}
identity: {groups: {teachers: [nobody]}}
identity: {basic: {file: nothing}}
identity: {basic: {}}
identity: {basic: {file: passwords, networks: [x]}}
proxy: {via: "a b"}
proxy: {trusted: [10.0.0.0/99]}
proxy: {connect-ports: [70000]}
proxy: {connect-ports: [-1]}
proxy: {connections: -1}
proxy: {connections: many}
proxy: {idle: 1x}
proxy: {idle: -1s}
proxy: {head: 5 apples}
proxy: {parent: "ftp://proxy.example"}
proxy: {private: [x]}
proxy: {held: 1ZB}
proxy: {idel: 5s}
pages: {templates: nothing}
intercept: {root: nothing.pem}
intercept: {}
intercept: {root: passwords}
events: {keep: 90 days}
events: {keep: -1d}
events: {queue: -1}
events: {sqlit: events.db}
state: {size: 1x}
state: {size: 1KiB}
state: {redis: {addresses: []}}
state: {redis: {addresses: ["127.0.0.1:1"], wait: 1h}}
state: {redis: {addresses: ["127.0.0.1:1"], db: -1}}
state: {redis: {addresses: ["127.0.0.1:1"], tls: {ca: nothing.pem}}}
dns: {listen: ["127.0.0.1:0:0"]}
dns: {listen: ["127.0.0.1:99999"]}
dns: {listen: ["127.0.0.1:0"], tls: ["127.0.0.1:0"]}
dns: {listen: ["127.0.0.1:0"], tls: ["127.0.0.1:0"], cert: nothing.pem, key: nothing.pem}
dns: {listen: ["127.0.0.1:0"], udp-size: 100}
dns: {listen: ["127.0.0.1:0"], rate: -5}
dns: {listen: ["127.0.0.1:0"], cookies: {mode: sometimes}}
dns: {listen: ["127.0.0.1:0"], cookies: {secret: abc}}
dns: {listen: ["127.0.0.1:0"], block: {answer: nonsense}}
dns: {listen: ["127.0.0.1:0"], block: {warn: sinkhole}}
dns: {listen: ["127.0.0.1:0"], block: {sinkhole: [x]}}
dns: {listen: ["127.0.0.1:0"], hosts: {"a..b": 10.0.0.1}}
dns: {listen: ["127.0.0.1:0"], hosts: {"a b": 10.0.0.1}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: [127.0.0.1], routes: {"a b": [127.0.0.1]}}}
icap: {preview: 1MiB}
dns: {listen: ["127.0.0.1:0"], hosts-files: [nothing]}
dns: {listen: ["127.0.0.1:0"], private: ["a..b"]}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: [x]}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"], order: random}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"], race: 99}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"], ca: nothing.pem}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"], routes: {"a..b": "127.0.0.1:1"}}}
dns: {listen: ["127.0.0.1:0"], cache: {size: tiny}}
dns: {listen: ["127.0.0.1:0"], cache: {siez: 1MiB}}
dns: {listen: ["127.0.0.1:0"], zones: {serial: random}}
dns: {listen: ["127.0.0.1:0"], zones: {tsig: [{name: a..b, secret: MDEy}]}}
dns: {listen: ["127.0.0.1:0"], zones: {allow: [{key: nobody}]}}
cache: {memory: -1MiB}
cache: {memory: lots}
cache: {admission: magic}
cache: {object: 0x}
cache: {purge: [x]}
cache: {rules: [{store: perhaps}]}
cache: {rules: [{host: ["a b"]}]}
cache: {rules: [{store: always, min: 2h, max: 1h}]}
cache: {rules: [{larger: 2MiB, smaller: 1MiB}]}
cache: {peers: {listen: "127.0.0.1:0"}}
cache: {peers: {listen: "127.0.0.1:0", secret: short, nodes: ["127.0.0.1:1"]}}
cache: {disk: 10GB, folder: own.txt}
cache: {offline: maybe}
cache: {wait: -1s}
checks: {icap: {servers: "http://127.0.0.1/"}}
checks: {icap: {servers: []}}
checks: {icap: {servers: "icap://127.0.0.1/x", page: nobodys}}
checks: {icap: {servers: "icap://127.0.0.1/x", connections: 0}}
checks: {icap: {servers: "icap://127.0.0.1/x", timeout: never}}
checks: {virus: {clamd: "tcp:/x"}}
checks: {virus: {}}
checks: {virus: {hashes: nothing}}
checks: {virus: {clamd: "tcp://127.0.0.1:3310", skip: [html]}}
checks: {picture: {suspect: 300}}
checks: {picture: {suspect: -1}}
checks: {picture: {workers: many}}
checks: {picture: {model: nothing.onnx}}
checks: {picture: {hashes: {a: {file: nothing}}}}
checks: {picture: {hashes: {a: {file: own.txt, type: sha3}}}}
checks: {picture: {hashes: {a: {file: own.txt, distance: 999}}}}
checks: {signature: {rules: [nothing.rules]}}
checks: {signature: {rules: []}}
checks: {signature: {rules: [own.txt], ports: {HTTP_PORTS: "x"}}}
checks: {signature: {rules: [own.txt], suricata: nothing}}
checks: {signature: {rules: [own.txt], disable-after: -1}}
checks: {signature: {sources: {a: {url: "ftp://x/"}}}}
checks: {signature: {rules: [own.txt], body: -1}}
alerts: {themes: {a: {}}}
alerts: {themes: {a: {category: [nonsense]}}}
alerts: {themes: {a: {words: [x], severity: huge}}}
alerts: {themes: {a: {words: [x], after: -1}}}
alerts: {themes: {a: {words: [x]}}, to: [{}]}
alerts: {themes: {a: {words: [x]}}, to: [{mail: nobody}]}
alerts: {themes: {a: {words: [x]}}, to: [{webhook: {url: "ftp://x/"}}]}
alerts: {themes: {a: {words: [x]}}, to: [{webhook: {url: "https://x.example/", format: carrier-pigeon}}]}
alerts: {themes: {a: {words: [x]}}, to: [{themes: [b], webhook: {url: "https://x.example/"}}]}
alerts: {themes: {a: {words: [x]}}, to: [{mail: a@b.example}]}
alerts: {keep: -5d}
reports: [{every: fortnight, mail: a@b.example}]
reports: [{every: week}]
reports: [{every: week, mail: a@b.example}]
reports: [{every: week, at: "25:00", mail: a@b.example}]
mail: {}
mail: {server: mail.example, from: x@example}
mail: {server: "smtp://mail.example", from: "no address"}
mail: {server: "smtp://mail.example:99999", from: a@b.example}
mail: {server: "smtp://mail.example:587", from: a@b.example, password: x}
access: {idle: -1m}
access: {total: soon}
access: {names: ["a b"]}
access: {urls: emperor}
access: {sign-in: {issuer: x}}
access: {sign-in: {issuer: "https://id.example", client-id: a, roles: {king: [x]}}}
access: {two-people: perhaps}
identity: {kerberos: {}}
identity: {kerberos: {keytab: nothing}}
identity: {kerberos: {keytab: own.txt}}
identity: {sign-in: {}}
identity: {sign-in: {oidc: {issuer: "http://id.example", client-id: a}}}
identity: {certificates: {}}
identity: {certificates: {ca: own.txt}}
identity: {certificates: {ca: nothing}}
identity: {headers: {user: "X Y"}}
identity: {basic: {file: passwords, radius: {servers: ["127.0.0.1"]}}}
identity: {basic: {ldap: {servers: ["http://x"], base: "dc=x"}}}
identity: {basic: {ldap: {servers: ["ldap://x"]}}}
identity: {basic: {ldap: {servers: ["ldap://x"], base: "dc=x", user: "(uid=)"}}}
identity: {accounting: {clients: {"10.0.0.0/99": secretsecretsecret}}}
identity: {accounting: {clients: {"10.0.0.1": ""}}}
identity: {client-ids: {anna: ["a b"]}}
portal: {name: "a b"}
portal: {pac: [{networks: [x]}]}
portal: {pac: [{proxies: ["x y"]}]}
portal: {pac: [{policies: [nowhere]}]}
icap: {preview: -1}
icap: {connections: many}
listen: {proxy: "127.0.0.1:0", icaps: "127.0.0.1:0"}
listen: {proxy: "127.0.0.1:0", portal-tls: "127.0.0.1:0"}
listen: {proxy: "127.0.0.1:0", radius: "127.0.0.1:0"}
listen: {proxy: "127.0.0.1:0", monitors: [x]}
listen: {proxy: "127.0.0.1:0", admin: "0.0.0.0:0"}
events: {clickhouse: "ftp://x"}
events: {postgres: "postgres://%zz"}
events: {kafka: {to: "x", topic: a}}
events: {kafka: {to: "127.0.0.1:1", topic: "a b"}}
events: {kafka: {to: "127.0.0.1:1", topic: a, mechanism: plain, user: x, password: y}}
events: {otlp: {}}
events: {otlp: {to: "x"}}
events: {otlp: {to: "https://x.example", headers: {"a b": c}}}
events: {syslog: {to: "logs.example"}}
events: {syslog: {to: "udp://x:514", format: gelf}}
events: {parquet: {to: "s3://"}}
events: {parquet: {to: "s3://b/x"}}
events: {anonymise: 100d, keep: 10d}
events: {spool: -1}
votes: {limit: 60}
votes: {keep: 1h}
votes: {secret: short}
votes: {forward: "ftp://x"}
votes: {forward: redis}
votes: {list: nolist}
votes: {automatic: [{vote: jump, votes: 3}]}
votes: {automatic: [{vote: release, votes: 0}]}
votes: {tls: {cert: nothing, key: nothing}}
votes: {mail: {server: x}}
votes: {listen: "127.0.0.1"}
votes: {nats: "x y"}
votes: {store: "postgres://%zz"}
intercept: {root: own.txt}
proxy: {answer: x}
proxy: {safe-ports: [0]}
proxy: {safe-ports: [80-20]}
proxy: {queue: -5}
proxy: {no-parent: ["a b"], parent: "http://p.example:3128"}
proxy: {old-tls: [x y]}
proxy: {ranges: sometimes}
proxy: {downloads: [html]}
proxy: {scripts: maybe}
proxy: {judges: [nowhere]}
proxy: {tunnel: -1s}
pages: {contact: [x]}
policies: [{name: a, users: [""]}]
policies: [{name: a, tenants: {google: ["a b"]}}]
policies: [{name: a, expect: [{url: "http://x.example/", is: unsure}]}]
policies: [{name: a, hide: [nolist]}]
policies: [{name: a, disguised: nearly}]
policies: [{name: a, store: forever}]
policies: [{name: a, warn-for: -1h}]
policies: [{name: a, quotas: [{time: 1h, category: [nonsense]}]}]
policies: [{name: a, rules: [{name: r, action: block, priority: 9, signature: [x]}]}]
policies: [{name: a, rules: [{name: r, action: block, pattern: ["("]}]}]
policies: [{name: a, rules: [{name: r, action: block, method: ["G T"]}]}]
policies: [{name: a, rules: [{name: r, action: block, upload: ["html"]}]}]
policies: [{name: a, rules: [{name: r, action: redirect, to: "not a url", host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, action: block, larger: -1}]}]
policies: [{name: a, rules: [{name: r, action: block, hash: [nothing]}]}]
policies: [{name: a, rules: [{name: r, action: block, words: ["{"]}]}]
policies: [{name: a, rules: [{name: r, action: block, conversation: maybe}]}]
policies: [{name: a, rules: [{name: r, action: block, unless: [x]}]}]
dns: {listen: ["127.0.0.1:0"], sockets: -1}
dns: {listen: ["127.0.0.1:0"], workers: 0}
dns: {listen: ["127.0.0.1:0"], path: dns}
dns: {listen: ["127.0.0.1:0"], dns64: "2001:db8::/33"}
dns: {listen: ["127.0.0.1:0"], allow: [x]}
dns: {listen: ["127.0.0.1:0"], trusted: [x]}
dns: {listen: ["127.0.0.1:0"], rrl: {rate: -1}}
dns: {listen: ["127.0.0.1:0"], rrl: {rate: 5, slip: -1}}
dns: {listen: ["127.0.0.1:0"], cache: {min-ttl: 2h, max-ttl: 1h}}
dns: {listen: ["127.0.0.1:0"], cache: {stale: -1s}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"], bootstrap: [x]}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"], trust-anchors: [x]}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"], in-flight: -1}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"], timeout: -1s}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"], negative-trust-anchors: ["a..b"]}}
dns: {listen: ["127.0.0.1:0"], redis: {addresses: ["127.0.0.1:1"], schema: bind}}
dns: {listen: ["127.0.0.1:0"], redis: {addresses: [x]}}
dns: {listen: ["127.0.0.1:0"], redis: {addresses: ["127.0.0.1:1"], geography: {country: nothing}}}
dns: {listen: ["127.0.0.1:0"], redis: {addresses: ["127.0.0.1:1"], health: {interval: -1s}}}
dns: {listen: ["127.0.0.1:0"], redis: {addresses: ["127.0.0.1:1"], subnet-from: [x]}}
dns: {listen: ["127.0.0.1:0"], zones: {files: [{path: own.txt, origin: "a..b"}]}}
dns: {listen: ["127.0.0.1:0"], zones: {sign: [{zones: ["x.example"], denial: nsec5}]}}
dns: {listen: ["127.0.0.1:0"], zones: {sign: [{zones: ["x.example"], keys: [nothing]}]}}
dns: {listen: ["127.0.0.1:0"], zones: {notify: [{address: x y}]}}
dns: {listen: ["127.0.0.1:0"], zones: {secondary: [{zone: x.example}]}}
dns: {listen: ["127.0.0.1:0"], zones: {secondary: [{zone: x.example, primaries: [{address: "127.0.0.1:1", key: nobody}]}]}}
dns: {listen: ["127.0.0.1:0"], zones: {tsig: [{name: a, secret: "!!"}]}}
dns: {listen: ["127.0.0.1:0"], zones: {tsig: [{name: a, secret: MDEy, algorithm: rot13}]}}
dns: {listen: ["127.0.0.1:0"], zones: {catalogs: [{zone: "a..b"}]}}
dns: {listen: ["127.0.0.1:0"], version: [x]}
dns: {listen: ["127.0.0.1:0"], wait: -1s}
dns: {listen: ["127.0.0.1:0"], log: shout}
state: {redis: {addresses: ["127.0.0.1:1"]}, file: x}
state: {redis: {addresses: ["a", "b"]}}
state: {redis: {addresses: ["127.0.0.1:1"], sentinel: m, cluster: true}}
state: {redis: {addresses: ["127.0.0.1:1"], tls: {cert: passwords}}}
lists: {own: {path: own.txt, subdomains: perhaps}}
lists: {own: {path: own.txt, longest: -1}}
lists: {own: {path: own.txt, zone: "a..b", format: rpz}}
lists: {own: {url: "http://l.example/", limit: -1}}
lists: {own: {url: "http://l.example/", key: x}}
lists: {own: {url: "http://l.example/", signature: "ftp://x"}}
lists: {own: {format: rpz, zone: nowhere.example}}
checks: {signature: {rules: [own.txt], vars: {HOME_NET: "[x"}}}
access: {idle: 0s}
access: {total: -5m}
access: {names: ["bad host"]}
access: {sign-in: {issuer: "https://id.example"}}
access: {urls: whole}
access: {names: [null]}
alerts: {themes: {t: {words: [""]}}, to: [{mail: a@b.example}], link: "https://f.example:1"}
alerts: {themes: {t: {words: [x], severity: 3}}, to: [{mail: a@b.example}], link: "https://f.example:1"}
alerts: {themes: {t: {words: [x], within: 8d}}, to: [{mail: a@b.example}], link: "https://f.example:1"}
alerts: {themes: {t: {words: [x]}}, to: [{webhook: {url: "https://h.example/", format: irc}}], link: "https://f.example:1"}
alerts: {themes: {t: {words: [x]}}, to: [{webhook: "https://h.example/", quiet: "9 0 25 0 01"}], link: "https://f.example:1"}
cache: {memory: 1KiB}
cache: {disk: 12MiB}
cache: {object: 0}
cache: {purge: [10.0.0.0/40]}
cache: {rules: [{host: [x.example], min: 2h, max: 1h}]}
cache: {rules: [{host: [x.example], larger: 5MB, smaller: 1MB, store: false}]}
cache: {rules: [{method: [get], store: false}]}
cache: {peers: {listen: "127.0.0.1:0", nodes: ["10.0.0.1"], secret: 0123456789abcdef0123}}
cache: {admission: lfu}
cache: {offline: never}
checks: {icap: {servers: ["http://127.0.0.1/scan"]}}
checks: {icap: {servers: ["icap://127.0.0.1:1344/av"], connections: 0}}
checks: {icap: {servers: ["icap://127.0.0.1:1344/av"], page: both}}
checks: {virus: {clamd: "127.0.0.1:3310", sessions: -2}}
checks: {virus: {clamd: "127.0.0.1:3310", connections: off}}
checks: {picture: {skin: 101}}
checks: {picture: {skin: 50, workers: 1e9}}
checks: {picture: {hashes: {h: {file: own.txt, type: phash}}}}
checks: {signature: {rules: [own.txt], ports: {HTTP: 99999}}}
checks: {signature: {rules: [own.txt], vars: {HOME: "10.0.0.0/33"}}}
dns: {listen: ["127.0.0.1:0"], udp-size: 70000}
dns: {listen: ["127.0.0.1:0"], sockets: 100000}
dns: {listen: ["127.0.0.1:0"], rrl: {rate: -3}}
dns: {listen: ["127.0.0.1:0"], rrl: {slip: 11.5}}
dns: {listen: ["127.0.0.1:0"], cookies: {mode: maybe}}
dns: {listen: ["127.0.0.1:0"], dns64: "64:ff9b::/97"}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["tls://"]}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: [9.9.9.9], order: random}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: [9.9.9.9], race: 100}}
dns: {listen: ["127.0.0.1:0"], zones: {tsig: [{name: k, secret: "&&"}]}}
dns: {listen: ["127.0.0.1:0"], zones: {secondary: [{zone: a.example}]}}
dns: {listen: ["127.0.0.1:0"], zones: {sign: [{zones: [a.example], keys: []}]}}
dns: {listen: ["127.0.0.1:0"], path: "/q?x=1"}
events: {every: 1ns}
events: {keep: 30m}
events: {anonymise: 91d, keep: 90d}
events: {kafka: {to: ["k:9092"], topic: "a/b"}}
events: {syslog: {to: "tls://l.example", format: leef}}
events: {otlp: {to: "http://c.example:4318", headers: {"a b": c}}}
events: {jsonl: .}
identity: {addresses: {anna: ["10.0.0.0/8", "10.0.0.1/8"]}}
identity: {client-ids: {anna: ["a.b"]}}
identity: {basic: {radius: {servers: ["127.0.0.1:1812"]}}}
identity: {basic: {ldap: {servers: ["ldaps://d.example"], base: "dc=x", user: "(uid=x)"}}}
identity: {headers: {groups: X-Groups}}
intercept: {leaf-days: 400}
intercept: {certificates: -1}
listen: {proxy: "127.0.0.1:0", monitors: [monitor.example]}
lists: {own: {path: own.txt, longest: 0}}
lists: {own: {path: own.txt, category: "a\tb"}}
mail: {server: "smtp://"}
mail: {server: "smtps://m.example:465", from: "a b@c.example"}
pages: {templates: own.txt}
policies: [{name: a, rules: [], patience: -1s}]
policies: [{name: a, rules: [], trickle: 10ms}]
policies: [{name: a, rules: [], trickle: 5s, patience: hold}]
policies: [{name: a, rules: [], safesearch: strictest}]
policies: [{name: a, rules: [], youtube: 1}]
policies: [{name: a, rules: [], quotas: [{category: [x], time: 25h}]}]
policies: [{name: a, rules: [], quotas: [{time: 90s}]}]
policies: [{name: a, rules: [], limits: [{requests: 0/1m}]}]
policies: [{name: a, rules: [], limits: [{queries: 5/32d}]}]
policies: [{name: a, rules: [], dns: {drop: [h2]}}]
policies: [{name: a, rules: [], tenants: {slack: {allow: [T1]}}}]
policies: [{name: a, rules: [], expect: {url: "http://x.example/", is: fail}}]
policies: [{name: a, rules: [{name: r, action: block, larger: -5}]}]
policies: [{name: a, rules: [{name: r, action: block, hash: [abc]}]}]
policies: [{name: a, rules: [{name: r, action: block, upload: ["zip!"]}]}]
policies: [{name: a, rules: [{name: r, action: block, signature: [-7]}]}]
policies: [{name: a, rules: [{name: r, action: block, schedule: {dates: "2026-02-30"}}]}]
portal: {pac: [{proxies: [ftp://x.example:1]}]}
proxy: {parent: "socks5://p.example:1080"}
proxy: {downloads: -1}
proxy: {held: 64MiB, held-total: 1MiB}
proxy: {judges: -1}
proxy: {ranges: no-such}
proxy: {safe-ports: ["9-3"]}
reports: [{every: month, mail: a@b.example}]
reports: [{every: day, at: "24:00", mail: a@b.example}]
state: {size: 1B}
state: {redis: {addresses: ["127.0.0.1:6379"], wait: 1m}}
state: {redis: {addresses: ["127.0.0.1:6379", "127.0.0.1:6380"]}}
state: {redis: {addresses: ["127.0.0.1:6379"], db: 16x}}
votes: {listen: "127.0.0.1:0", limit: "60 per hour"}
votes: {listen: "127.0.0.1:0", keep: 1h}
votes: {listen: "127.0.0.1:0", automatic: [{vote: wrong, votes: 0, within: 1d}]}
votes: {listen: "127.0.0.1:0", forward: "gopher://v.example"}
updates: 3
policies: [{name: a, rules: [null]}]
policies: [{name: a, networks: [10.0.0.0/8, ], rules: [{name: r, action: block, host: [x.example, ~]}]}]
checks: {category: {lists: [null]}}
pages: {children: [nobody]}
`

// check and run refuse invalid settings with the same words.
func TestCheckAndRunRefuseTheSameSettings(t *testing.T) {
	race.Without(t)
	file := folder(t, map[string]string{"own.txt": "own.example\n", "passwords": ""})
	n := 0
	for line := range strings.Lines(invalid) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		n++
		settings := line + "\n"
		if !strings.HasPrefix(line, "listen:") {
			settings = "listen: {proxy: \"127.0.0.1:0\", admin: \"127.0.0.1:0\"}\n" + settings
		}
		if !strings.HasPrefix(line, "policies:") {
			settings += "policies: [{name: everyone, rules: []}]\n"
		}
		if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
			t.Fatal(err)
		}
		check := explain(t, file)
		g, run := New(t.Context(), file, slog.New(slog.DiscardHandler))
		if run == nil {
			if err := g.close(); err != nil {
				t.Error(err)
			}
		}
		switch {
		case check == nil && run == nil:
			t.Errorf("check and run accept: %s", line)
		case check == nil || run == nil || check.Error() != run.Error():
			t.Errorf("check and run differ about %s\ncheck: %v\nrun: %v", line, check, run)
		case !strings.Contains(check.Error(), filepath.Base(file)+":"):
			t.Errorf("the error about %s names no line: %v", line, check)
		}
	}
	if n < 100 {
		t.Errorf("the test has only %d invalid settings", n)
	}
}
