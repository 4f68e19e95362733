"""Pages that try to read, to reach, to stay or to harm. `{port}` is that of a listener on this machine that nothing may reach."""

from __future__ import annotations

#: Name -> page; those in `WITH_SCRIPTS` are rendered with scripts on.
HOSTILE = {
    "frame of a file": '<iframe src="file:///etc/passwd" width=900 height=600></iframe>',
    "object of a file": '<object data="file:///etc/passwd" width=900 height=600></object><embed src="file:///etc/passwd">',
    "image of a file": '<img src="file:///etc/passwd"><img src="file:///usr/share/pixmaps/debian-logo.png">',
    "style sheet of a file": '<link rel=stylesheet href="file:///etc/passwd"><style>@import url(file:///etc/passwd);</style><p>x',
    "refresh to a file": '<meta http-equiv="refresh" content="0;url=file:///etc/passwd"><p>before',
    "refresh to the web": '<meta http-equiv="refresh" content="0;url=http://127.0.0.1:{port}/refresh"><p>before',
    "image of the web": '<img src="http://127.0.0.1:{port}/image.png"><img srcset="http://127.0.0.1:{port}/set.png 2x">',
    "frame of the web": '<iframe src="http://127.0.0.1:{port}/frame"></iframe><iframe srcdoc="<img src=http://127.0.0.1:{port}/srcdoc>"></iframe>',
    "style of the web": '<link rel=stylesheet href="http://127.0.0.1:{port}/s.css"><style>body{{background:url(http://127.0.0.1:{port}/b.png)}}</style>',
    "font of the web": "<style>@font-face{{font-family:a;src:url(http://127.0.0.1:{port}/f.woff)}}p{{font-family:a}}</style><p>x",
    "hints of the web": '<link rel=preconnect href="http://127.0.0.1:{port}"><link rel=dns-prefetch href="//127.0.0.1:{port}">'
    '<link rel=prefetch href="http://127.0.0.1:{port}/p"><link rel=preload as=image href="http://127.0.0.1:{port}/q"><p>x',
    "media of the web": '<video src="http://127.0.0.1:{port}/v.mp4" autoplay></video><audio src="http://127.0.0.1:{port}/a.mp3" autoplay></audio>',
    "base elsewhere": '<base href="http://127.0.0.1:{port}/"><img src="relative.png">',
    "svg of the web": '<svg><image href="http://127.0.0.1:{port}/i.png"/><use href="http://127.0.0.1:{port}/u.svg#a"/></svg>',
    "form sends itself": '<form action="http://127.0.0.1:{port}/form"><input name=a value=b autofocus></form><script>document.forms[0].submit()</script>',
    "scripts where there are none": "<p id=a>still</p><script>document.getElementById('a').textContent='ran';while(1);</script>",
    "a very high page": '<div style="height:1000000px;background:red">x</div>',
    "a very wide page": '<div style="width:1000000px;height:50px;background:red">x</div>',
    "a huge picture": '<img src="https://picsum.photos/99999/99999">',
    "a deep tree": "<div>" * 20_000 + "x",
    "many elements": "<p>x</p>" * 100_000,
    "laughing svg": "<svg><defs><g id=a0><rect width=9 height=9 /></g>"
    + "".join(f'<g id=a{i}>' + f'<use href="#a{i - 1}"/>' * 10 + "</g>" for i in range(1, 8))
    + '</defs><use href="#a7"/></svg>',
    "slow filters": "".join(f'<div style="filter:blur({i}px);width:100%;height:900px;background:red"></div>' for i in range(300, 400)),
    "for ever in motion": "<style>@keyframes a{{from{{left:0}}to{{left:900px}}}}p{{position:absolute;animation:a 1s infinite}}</style><p>x",
    "a loop": "<p>x</p><script>while(1);</script>",
    "all memory": "<script>let a=[];while(1)a.push(new Uint8Array(1<<24).fill(1))</script>",
    "all memory in text": "<p id=a>x</p><script>let s='x';while(1){{s+=s;a.textContent=s}}</script>",
    "windows": "<script>for(let i=0;i<50;i++)open('http://127.0.0.1:{port}/w'+i)</script><p>x",
    "dialogs": "<script>alert(1);confirm(2);prompt(3);print()</script><p>x",
    "calls home": "<script>fetch('http://127.0.0.1:{port}/fetch',{{mode:'no-cors'}});navigator.sendBeacon('http://127.0.0.1:{port}/beacon');"
    "new Image().src='http://127.0.0.1:{port}/image';let r=new XMLHttpRequest();r.open('GET','http://127.0.0.1:{port}/xhr');r.send()</script><p>x",
    "sockets": "<script>new WebSocket('ws://127.0.0.1:{port}/ws');new EventSource('http://127.0.0.1:{port}/es');"
    "new RTCPeerConnection({{iceServers:[{{urls:'stun:127.0.0.1:{port}'}}]}}).createDataChannel('x')</script><p>x",
    "reads a file by script": "<p id=a>nothing</p><script>fetch('file:///etc/passwd').then(r=>r.text()).then(t=>a.textContent=t)</script>",
    "goes away": "<script>location='http://127.0.0.1:{port}/gone'</script><p>x",
    "writes for ever": "<script>setInterval(()=>document.write('<p>x</p>'),0)</script>",
    "workers": "<script>for(let i=0;i<50;i++)new Worker(URL.createObjectURL(new Blob(['while(1);'])))</script><p>x",
    "a service worker": "<script>navigator.serviceWorker&&navigator.serviceWorker.register('/sw.js')</script><p>x",
    "downloads": '<a id=a download=x href="data:application/octet-stream,x">x</a><script>a.click()</script>',
}  # fmt: skip
WITH_SCRIPTS = {
    "a loop", "all memory", "all memory in text", "windows", "dialogs", "calls home", "sockets", "reads a file by script", "goes away",
    "writes for ever", "workers", "a service worker", "downloads", "form sends itself",
}  # fmt: skip
