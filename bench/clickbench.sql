-- bench/clickbench: the table, and the queries, one in a line.
--
-- After the public definition of ClickBench.  Where an order does not tell which rows are the first, more of it was
-- added.  What is in braces depends on the number of rows, or on the data.
CREATE TABLE {table} (WatchID bigint NOT NULL, JavaEnable smallint NOT NULL, Title text NOT NULL, GoodEvent smallint NOT NULL, EventTime timestamp NOT NULL, EventDate date NOT NULL, CounterID integer NOT NULL, ClientIP integer NOT NULL, RegionID integer NOT NULL, UserID bigint NOT NULL, CounterClass smallint NOT NULL, OS smallint NOT NULL, UserAgent smallint NOT NULL, URL text NOT NULL, Referer text NOT NULL, IsRefresh smallint NOT NULL, RefererCategoryID smallint NOT NULL, RefererRegionID integer NOT NULL, URLCategoryID smallint NOT NULL, URLRegionID integer NOT NULL, ResolutionWidth smallint NOT NULL, ResolutionHeight smallint NOT NULL, ResolutionDepth smallint NOT NULL, FlashMajor smallint NOT NULL, FlashMinor smallint NOT NULL, FlashMinor2 text NOT NULL, NetMajor smallint NOT NULL, NetMinor smallint NOT NULL, UserAgentMajor smallint NOT NULL, UserAgentMinor varchar(255) NOT NULL, CookieEnable smallint NOT NULL, JavascriptEnable smallint NOT NULL, IsMobile smallint NOT NULL, MobilePhone smallint NOT NULL, MobilePhoneModel text NOT NULL, Params text NOT NULL, IPNetworkID integer NOT NULL, TraficSourceID smallint NOT NULL, SearchEngineID smallint NOT NULL, SearchPhrase text NOT NULL, AdvEngineID smallint NOT NULL, IsArtifical smallint NOT NULL, WindowClientWidth smallint NOT NULL, WindowClientHeight smallint NOT NULL, ClientTimeZone smallint NOT NULL, ClientEventTime timestamp NOT NULL, SilverlightVersion1 smallint NOT NULL, SilverlightVersion2 smallint NOT NULL, SilverlightVersion3 integer NOT NULL, SilverlightVersion4 smallint NOT NULL, PageCharset text NOT NULL, CodeVersion integer NOT NULL, IsLink smallint NOT NULL, IsDownload smallint NOT NULL, IsNotBounce smallint NOT NULL, FUniqID bigint NOT NULL, OriginalURL text NOT NULL, HID integer NOT NULL, IsOldCounter smallint NOT NULL, IsEvent smallint NOT NULL, IsParameter smallint NOT NULL, DontCountHits smallint NOT NULL, WithHash smallint NOT NULL, HitColor char NOT NULL, LocalEventTime timestamp NOT NULL, Age smallint NOT NULL, Sex smallint NOT NULL, Income smallint NOT NULL, Interests smallint NOT NULL, Robotness smallint NOT NULL, RemoteIP integer NOT NULL, WindowName integer NOT NULL, OpenerName integer NOT NULL, HistoryLength smallint NOT NULL, BrowserLanguage text NOT NULL, BrowserCountry text NOT NULL, SocialNetwork text NOT NULL, SocialAction text NOT NULL, HTTPError smallint NOT NULL, SendTiming integer NOT NULL, DNSTiming integer NOT NULL, ConnectTiming integer NOT NULL, ResponseStartTiming integer NOT NULL, ResponseEndTiming integer NOT NULL, FetchTiming integer NOT NULL, SocialSourceNetworkID smallint NOT NULL, SocialSourcePage text NOT NULL, ParamPrice bigint NOT NULL, ParamOrderID text NOT NULL, ParamCurrency text NOT NULL, ParamCurrencyID smallint NOT NULL, OpenstatServiceName text NOT NULL, OpenstatCampaignID text NOT NULL, OpenstatAdID text NOT NULL, OpenstatSourceID text NOT NULL, UTMSource text NOT NULL, UTMMedium text NOT NULL, UTMCampaign text NOT NULL, UTMContent text NOT NULL, UTMTerm text NOT NULL, FromTag text NOT NULL, HasGCLID smallint NOT NULL, RefererHash bigint NOT NULL, URLHash bigint NOT NULL, CLID integer NOT NULL, PRIMARY KEY (CounterID, EventDate, UserID, EventTime, WatchID))
SELECT COUNT(*) FROM {table}
SELECT COUNT(*) FROM {table} WHERE AdvEngineID <> 0
SELECT SUM(AdvEngineID), COUNT(*), AVG(ResolutionWidth) FROM {table}
SELECT AVG(UserID) FROM {table}
SELECT COUNT(DISTINCT UserID) FROM {table}
SELECT COUNT(DISTINCT SearchPhrase) FROM {table}
SELECT MIN(EventDate), MAX(EventDate) FROM {table}
SELECT AdvEngineID, COUNT(*) FROM {table} WHERE AdvEngineID <> 0 GROUP BY AdvEngineID ORDER BY COUNT(*) DESC, 1
SELECT RegionID, COUNT(DISTINCT UserID) AS u FROM {table} GROUP BY RegionID ORDER BY u DESC, 1 LIMIT 10
SELECT RegionID, SUM(AdvEngineID), COUNT(*) AS c, AVG(ResolutionWidth), COUNT(DISTINCT UserID) FROM {table} GROUP BY RegionID ORDER BY c DESC, 1 LIMIT 10
SELECT MobilePhoneModel, COUNT(DISTINCT UserID) AS u FROM {table} WHERE MobilePhoneModel <> '' GROUP BY MobilePhoneModel ORDER BY u DESC, 1 LIMIT 10
SELECT MobilePhone, MobilePhoneModel, COUNT(DISTINCT UserID) AS u FROM {table} WHERE MobilePhoneModel <> '' GROUP BY MobilePhone, MobilePhoneModel ORDER BY u DESC, 1, 2 LIMIT 10
SELECT SearchPhrase, COUNT(*) AS c FROM {table} WHERE SearchPhrase <> '' GROUP BY SearchPhrase ORDER BY c DESC, 1 LIMIT 10
SELECT SearchPhrase, COUNT(DISTINCT UserID) AS u FROM {table} WHERE SearchPhrase <> '' GROUP BY SearchPhrase ORDER BY u DESC, 1 LIMIT 10
SELECT SearchEngineID, SearchPhrase, COUNT(*) AS c FROM {table} WHERE SearchPhrase <> '' GROUP BY SearchEngineID, SearchPhrase ORDER BY c DESC, 1, 2 LIMIT 10
SELECT UserID, COUNT(*) FROM {table} GROUP BY UserID ORDER BY COUNT(*) DESC, 1 LIMIT 10
SELECT UserID, SearchPhrase, COUNT(*) FROM {table} GROUP BY UserID, SearchPhrase ORDER BY COUNT(*) DESC, 1, 2 LIMIT 10
SELECT UserID, SearchPhrase, COUNT(*) FROM {table} GROUP BY UserID, SearchPhrase LIMIT 10
SELECT UserID, extract(minute FROM EventTime) AS m, SearchPhrase, COUNT(*) FROM {table} GROUP BY UserID, m, SearchPhrase ORDER BY COUNT(*) DESC, 1, 2, 3 LIMIT 10
SELECT UserID FROM {table} WHERE UserID = {user}
SELECT COUNT(*) FROM {table} WHERE URL LIKE '%google%'
SELECT SearchPhrase, MIN(URL), COUNT(*) AS c FROM {table} WHERE URL LIKE '%google%' AND SearchPhrase <> '' GROUP BY SearchPhrase ORDER BY c DESC, 1 LIMIT 10
SELECT SearchPhrase, MIN(URL), MIN(Title), COUNT(*) AS c, COUNT(DISTINCT UserID) FROM {table} WHERE Title LIKE '%Google%' AND URL NOT LIKE '%.google.%' AND SearchPhrase <> '' GROUP BY SearchPhrase ORDER BY c DESC, 1 LIMIT 10
SELECT * FROM {table} WHERE URL LIKE '%google%' ORDER BY EventTime, WatchID LIMIT 10
SELECT SearchPhrase FROM {table} WHERE SearchPhrase <> '' ORDER BY EventTime, WatchID LIMIT 10
SELECT SearchPhrase FROM {table} WHERE SearchPhrase <> '' ORDER BY SearchPhrase LIMIT 10
SELECT SearchPhrase FROM {table} WHERE SearchPhrase <> '' ORDER BY EventTime, SearchPhrase LIMIT 10
SELECT CounterID, AVG(length(URL)) AS l, COUNT(*) AS c FROM {table} WHERE URL <> '' GROUP BY CounterID HAVING COUNT(*) > {many} ORDER BY l DESC, 1 LIMIT 25
SELECT REGEXP_REPLACE(Referer, '^https?://(?:www\.)?([^/]+)/.*$', '\1') AS k, AVG(length(Referer)) AS l, COUNT(*) AS c, MIN(Referer) FROM {table} WHERE Referer <> '' GROUP BY k HAVING COUNT(*) > {many} ORDER BY l DESC, 1 LIMIT 25
SELECT {sums} FROM {table}
SELECT SearchEngineID, ClientIP, COUNT(*) AS c, SUM(IsRefresh), AVG(ResolutionWidth) FROM {table} WHERE SearchPhrase <> '' GROUP BY SearchEngineID, ClientIP ORDER BY c DESC, 1, 2 LIMIT 10
SELECT WatchID, ClientIP, COUNT(*) AS c, SUM(IsRefresh), AVG(ResolutionWidth) FROM {table} WHERE SearchPhrase <> '' GROUP BY WatchID, ClientIP ORDER BY c DESC, 1, 2 LIMIT 10
SELECT WatchID, ClientIP, COUNT(*) AS c, SUM(IsRefresh), AVG(ResolutionWidth) FROM {table} GROUP BY WatchID, ClientIP ORDER BY c DESC, 1, 2 LIMIT 10
SELECT URL, COUNT(*) AS c FROM {table} GROUP BY URL ORDER BY c DESC, 1 LIMIT 10
SELECT 1, URL, COUNT(*) AS c FROM {table} GROUP BY 1, URL ORDER BY c DESC, 2 LIMIT 10
SELECT ClientIP, ClientIP - 1, ClientIP - 2, ClientIP - 3, COUNT(*) AS c FROM {table} GROUP BY ClientIP, ClientIP - 1, ClientIP - 2, ClientIP - 3 ORDER BY c DESC, 1 LIMIT 10
SELECT URL, COUNT(*) AS PageViews FROM {table} WHERE CounterID = 62 AND EventDate >= '2013-07-01' AND EventDate <= '2013-07-31' AND DontCountHits = 0 AND IsRefresh = 0 AND URL <> '' GROUP BY URL ORDER BY PageViews DESC, 1 LIMIT 10
SELECT Title, COUNT(*) AS PageViews FROM {table} WHERE CounterID = 62 AND EventDate >= '2013-07-01' AND EventDate <= '2013-07-31' AND DontCountHits = 0 AND IsRefresh = 0 AND Title <> '' GROUP BY Title ORDER BY PageViews DESC, 1 LIMIT 10
SELECT URL, COUNT(*) AS PageViews FROM {table} WHERE CounterID = 62 AND EventDate >= '2013-07-01' AND EventDate <= '2013-07-31' AND IsRefresh = 0 AND IsLink <> 0 AND IsDownload = 0 GROUP BY URL ORDER BY PageViews DESC, 1 LIMIT 10 OFFSET {few}
SELECT TraficSourceID, SearchEngineID, AdvEngineID, CASE WHEN (SearchEngineID = 0 AND AdvEngineID = 0) THEN Referer ELSE '' END AS Src, URL AS Dst, COUNT(*) AS PageViews FROM {table} WHERE CounterID = 62 AND EventDate >= '2013-07-01' AND EventDate <= '2013-07-31' AND IsRefresh = 0 GROUP BY TraficSourceID, SearchEngineID, AdvEngineID, Src, Dst ORDER BY PageViews DESC, 1, 2, 3, 4, 5 LIMIT 10 OFFSET {few}
SELECT URLHash, EventDate, COUNT(*) AS PageViews FROM {table} WHERE CounterID = 62 AND EventDate >= '2013-07-01' AND EventDate <= '2013-07-31' AND IsRefresh = 0 AND TraficSourceID IN (-1, 6) AND RefererHash = {referer} GROUP BY URLHash, EventDate ORDER BY PageViews DESC, 1, 2 LIMIT 10 OFFSET {few}
SELECT WindowClientWidth, WindowClientHeight, COUNT(*) AS PageViews FROM {table} WHERE CounterID = 62 AND EventDate >= '2013-07-01' AND EventDate <= '2013-07-31' AND IsRefresh = 0 AND DontCountHits = 0 AND URLHash = {url} GROUP BY WindowClientWidth, WindowClientHeight ORDER BY PageViews DESC, 1, 2 LIMIT 10 OFFSET {few}
SELECT DATE_TRUNC('minute', EventTime) AS M, COUNT(*) AS PageViews FROM {table} WHERE CounterID = 62 AND EventDate >= '2013-07-14' AND EventDate <= '2013-07-15' AND IsRefresh = 0 AND DontCountHits = 0 GROUP BY DATE_TRUNC('minute', EventTime) ORDER BY DATE_TRUNC('minute', EventTime) LIMIT 10 OFFSET {few}
