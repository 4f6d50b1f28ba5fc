package build

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/tool/importer/report"
)

// services has the domains of well-known services, by the names that other filters use. Blocked
// services become lists.
var services = map[string]string{
	"9gag":                   "9gag.com 9cache.com",
	"activision_blizzard":    "activision.com blizzard.com battle.net callofduty.com demonware.net",
	"aliexpress":             "aliexpress.com aliexpress.ru alicdn.com",
	"amazon":                 "amazon.com amazon.de amazon.co.uk amazon.fr amazon.it amazon.es amazon.co.jp amazon.ca amazon.in media-amazon.com ssl-images-amazon.com",
	"battle_net":             "battle.net blizzard.com blz-contentstack.com",
	"bereal":                 "bereal.com bere.al",
	"bilibili":               "bilibili.com bilibili.tv hdslb.com biliapi.net bilivideo.com",
	"blizzard":               "battle.net blizzard.com blz-contentstack.com",
	"blizzard_entertainment": "battle.net blizzard.com blz-contentstack.com playhearthstone.com playoverwatch.com worldofwarcraft.com",
	"bluesky":                "bsky.app bsky.social bsky.network",
	"chatgpt":                "chatgpt.com openai.com oaistatic.com oaiusercontent.com",
	"claude":                 "claude.ai anthropic.com",
	"crunchyroll":            "crunchyroll.com vrv.co",
	"dailymotion":            "dailymotion.com dmcdn.net dm-event.net",
	"deepseek":               "deepseek.com",
	"deezer":                 "deezer.com dzcdn.net",
	"discord":                "discord.com discord.gg discordapp.com discordapp.net discord.media discordstatus.com",
	"disneyplus":             "disneyplus.com disney-plus.net dssott.com bamgrid.com",
	"ebay":                   "ebay.com ebay.de ebay.co.uk ebay.fr ebay.it ebayimg.com ebaystatic.com",
	"electronic_arts":        "ea.com origin.com eaplay.com eamobile.com",
	"epic_games":             "epicgames.com epicgames.dev unrealengine.com fortnite.com",
	"facebook":               "facebook.com facebook.net fb.com fb.me fbcdn.net fbsbx.com messenger.com m.me",
	"fortnite":               "fortnite.com epicgames.com",
	"gog":                    "gog.com gog-statics.com",
	"google-chat":            "chat.google.com",
	"hbomax":                 "hbomax.com hbomaxcdn.com max.com",
	"hulu":                   "hulu.com huluim.com hulustream.com huluad.com",
	"imgur":                  "imgur.com imgur.io",
	"instagram":              "instagram.com cdninstagram.com ig.me instagr.am",
	"kakaotalk":              "kakao.com kakaocdn.net daumcdn.net",
	"kik":                    "kik.com",
	"leagueoflegends":        "leagueoflegends.com lolesports.com pvp.net",
	"line":                   "line.me line-apps.com line-scdn.net naver.jp",
	"linkedin":               "linkedin.com licdn.com lnkd.in",
	"mail_ru":                "mail.ru imgsmail.ru",
	"mastodon":               "mastodon.social mastodon.online mstdn.social mstdn.jp",
	"messenger":              "messenger.com m.me",
	"minecraft":              "minecraft.net minecraftservices.com mojang.com",
	"netflix":                "netflix.com netflix.net nflxext.com nflximg.com nflximg.net nflxso.net nflxvideo.net fast.com",
	"nintendo":               "nintendo.com nintendo.net nintendo-europe.com nintendowifi.net",
	"odysee":                 "odysee.com lbry.com",
	"ok":                     "ok.ru odnoklassniki.ru mycdn.me",
	"onlyfans":               "onlyfans.com",
	"origin":                 "origin.com ea.com",
	"pinterest":              "pinterest.com pinterest.de pinterest.co.uk pinterest.fr pinimg.com pin.it",
	"playstation-network":    "playstation.com playstation.net sonyentertainmentnetwork.com",
	"playstation":            "playstation.com playstation.net sonyentertainmentnetwork.com",
	"primevideo":             "primevideo.com amazonvideo.com aiv-cdn.net aiv-delivery.net atv-ps.amazon.com",
	"privacy":                "startpage.com",
	"qq":                     "qq.com qpic.cn gtimg.cn gtimg.com",
	"reddit":                 "reddit.com redd.it redditmedia.com redditstatic.com reddituploads.com",
	"riot_games":             "riotgames.com riotcdn.net playvalorant.com leagueoflegends.com",
	"roblox":                 "roblox.com rbxcdn.com rbx.com robloxcdn.com",
	"rockstar_games":         "rockstargames.com rsg.sc",
	"signal":                 "signal.org whispersystems.org signal.art signal.me",
	"skype":                  "skype.com skype.net lync.com skypeassets.com",
	"slack":                  "slack.com slack-edge.com slack-imgs.com slack-msgs.com",
	"snapchat":               "snapchat.com sc-cdn.net snap.com snapads.com snapkit.com",
	"soundcloud":             "soundcloud.com sndcdn.com",
	"spotify":                "spotify.com spotifycdn.com scdn.co spoti.fi",
	"steam":                  "steampowered.com steamcommunity.com steamstatic.com steamcontent.com steamgames.com steamusercontent.com steamserver.net",
	"telegram":               "telegram.org telegram.me t.me telegra.ph tdesktop.com telesco.pe tg.dev",
	"temu":                   "temu.com kwcdn.com",
	"tidal":                  "tidal.com",
	"tiktok":                 "tiktok.com tiktokcdn.com tiktokcdn-us.com tiktokv.com tiktokv.us musical.ly muscdn.com byteoversea.com ibytedtos.com ibyteimg.com ttwstatic.com",
	"tinder":                 "tinder.com gotinder.com tindersparks.com",
	"tumblr":                 "tumblr.com",
	"twitch":                 "twitch.tv ttvnw.net jtvnw.net twitchcdn.net ext-twitch.tv",
	"twitter":                "twitter.com x.com t.co twimg.com pscp.tv periscope.tv twttr.com",
	"ubisoft":                "ubisoft.com ubi.com uplay.com ubisoftconnect.com",
	"valorant":               "playvalorant.com valorant.com riotgames.com",
	"viber":                  "viber.com",
	"vimeo":                  "vimeo.com vimeocdn.com",
	"vk":                     "vk.com vk.ru vk.me userapi.com vkuservideo.net vk-cdn.net",
	"voot":                   "voot.com",
	"wargaming":              "wargaming.net worldoftanks.com worldoftanks.eu worldofwarships.com",
	"wechat":                 "wechat.com weixin.qq.com wechatapp.com",
	"weibo":                  "weibo.com weibo.cn sinaimg.cn",
	"whatsapp":               "whatsapp.com whatsapp.net wa.me whatsapp.biz",
	"xboxlive":               "xbox.com xboxlive.com xboxservices.com gamepass.com",
	"xiaohongshu":            "xiaohongshu.com xhscdn.com",
	"youtube":                "youtube.com youtu.be ytimg.com youtube-nocookie.com googlevideo.com youtubei.googleapis.com youtube.googleapis.com youtubekids.com yt.be",
	"zhihu":                  "zhihu.com zhimg.com",
	"zoom":                   "zoom.us zoom.com zoomgov.com",
}

// BlockServices makes a list of each blocked service, and returns the
// categories of known ones. The caller completes the note.
func (w *Work) BlockServices(at report.Place, ids []string) (categories []string, note *report.Note) {
	var unknown []string
	for _, id := range ids {
		names, ok := services[strings.ToLower(id)]
		if !ok {
			unknown = append(unknown, id)
			continue
		}
		category := "service-" + strings.ReplaceAll(strings.ToLower(id), "_", "-")
		if _, exists := w.lists[category]; !exists {
			path, err := w.Create(category, func(to io.Writer) error {
				_, err := io.WriteString(to, strings.ReplaceAll(names, " ", "\n")+"\n")
				return err
			})
			if err == nil {
				_, err = w.AddList(category, list.Config{Path: setting.Source(path), Category: category, Format: list.Domains, Match: list.Boundary}, report.Place{File: at.File, Line: at.Line, Text: "blocked service " + id})
			}
			if err != nil {
				unknown = append(unknown, id)
				continue
			}
		}
		if c := "category/" + category; !slices.Contains(categories, c) {
			categories = append(categories, c)
		}
	}
	switch {
	case len(unknown) == 0:
		return categories, report.Same("lists.service-…, a rule that blocks them")
	case len(categories) == 0:
		return nil, report.ByHand("lists", fmt.Sprintf("the names of %s are not known: write a list of them, and a rule that blocks it", strings.Join(unknown, ", "))).Opening()
	}
	return categories, report.Differs("lists.service-…, a rule that blocks them", fmt.Sprintf("the names of %s are not known: write a list of them, and name its category in the rule", strings.Join(unknown, ", "))).Opening()
}

// ServiceRule blocks services except at the times when they are permitted.
func ServiceRule(categories []string, when policy.Schedule) policy.Rule {
	return policy.Rule{Name: "services", Action: "block", Category: categories, Schedule: when}
}
