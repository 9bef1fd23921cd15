package describe

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// TestPrograms: what programs print is read in full, or not at all.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ text, want string }{
		"ps aux": {`USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
root           1  0.3  0.0  57968 22956 ?        Ss   12:35   0:36 /sbin/init splash
root           2  0.0  0.0      0     0 ?        S    12:35   0:00 [kthreadd]
postgres 1020304 12.5  1.1 12345678 1234567 pts/0 Sl+ Nov26 123:45 postgres: writer --x={"a": 1}
`, "USER|PID|%CPU|%MEM|VSZ|RSS|TTY|STAT|START|TIME|COMMAND\npostgres|1020304|12.5|1.1|12345678|1234567|pts/0|Sl+|Nov26|123:45|postgres: writer --x={\"a\": 1}"},
		"pip list": {"Package  Version\n-------- -------\nrequests 2.32.3\nurllib3  2.2.2\n", "Package|Version\nurllib3|2.2.2"},
		"docker ps": {`CONTAINER ID   IMAGE         COMMAND                  CREATED          STATUS                   PORTS                    NAMES
4c01db0b339c   ubuntu:22.04  "bash"                   17 seconds ago   Up 16 seconds            3300-3310/tcp            webapp
1a2b3c4d5e6f   nginx         "/docker-entrypoint.…"   2 days ago       Exited (0) 3 hours ago                            old_web
99aabbccddee   postgres:16   "docker-entrypoint.s…"   5 weeks ago      Up 5 weeks (healthy)     0.0.0.0:5432->5432/tcp   db
`, "CONTAINER ID|IMAGE|COMMAND|CREATED|STATUS|PORTS|NAMES\n99aabbccddee|postgres:16|\"docker-entrypoint.s…\"|5 weeks ago|Up 5 weeks (healthy)|0.0.0.0:5432->5432/tcp|db"},
		"lsof": {`COMMAND  PID USER   FD   TYPE DEVICE SIZE/OFF NODE NAME
node    4321 jane   18u  IPv6 0x5c1f2a3b4c5d6e7f      0t0  TCP *:3000 (LISTEN)
node    4321 jane   19u  IPv4 0x5c1f2a3b4c5d6e80      0t0  TCP localhost:3001 (LISTEN)
`, ""},
		"lsof of threads": {`COMMAND     PID   TID TASKCMD               USER   FD      TYPE             DEVICE  SIZE/OFF       NODE NAME
systemd       1                             root  cwd       DIR              259,1      4096          2 /
systemd       1                             root    7u  a_inode               0,14         0      10420 [eventpoll]
sshd        812                             root    3u     IPv4              21234       0t0        TCP *:ssh (LISTEN)
nginx      1020  1022 nginx             www-data    6u     unix 0xffff9a3c1b2d4000       0t0      22011 type=STREAM
`, "COMMAND|PID|TID|TASKCMD|USER|FD|TYPE|DEVICE|SIZE/OFF|NODE|NAME\nnginx|1020|1022|nginx|www-data|6u|unix|0xffff9a3c1b2d4000|0t0|22011|type=STREAM"},
		"lscpu": {"Architecture:             x86_64\n  CPU op-mode(s):         32-bit, 64-bit\nByte Order:               Little Endian\nCPU(s):                   2\n", ""},
		"mount": {"proc on /proc type proc (rw,relatime)\nsysfs on /sys type sysfs (rw,relatime)\n" +
			"tmpfs on /run type tmpfs (rw,nosuid,nodev,size=2g,mode=755)\n/dev/vda on / type ext4 (rw,relatime)\n", ""},
		"top": {"top - 15:34:21 up  2:59,  0 user,  load average: 15.45, 23.05, 20.09\nTasks: 108 total,   3 running, 105 sleeping,   0 stopped,   0 zombie\n" +
			"%Cpu(s): 66.7 us, 33.3 sy,  0.0 ni,  0.0 id\n\n    PID USER      PR  NI COMMAND\n      1 root      20   0 init\n", ""},
		"netstat": {"Active Internet connections (servers and established)\nProto Recv-Q Send-Q Local Address           Foreign Address         State\n" +
			"tcp        0      0 0.0.0.0:22              0.0.0.0:*               LISTEN\ntcp        0      0 10.0.0.2:22             10.0.0.9:51000          ESTABLISHED\n", ""},
		"dpkg -l": {"Desired=Unknown/Install/Remove/Purge/Hold\n| Status=Not/Inst/Conf-files/Unpacked/halF-conf/Half-inst/trig-aWait/Trig-pend\n|/ Err?=(none)/Reinst-required (Status,Err: uppercase=bad)\n" +
			"||/ Name           Version      Architecture Description\n+++-==============-============-============-=================================\nii  adduser        3.134        all          add and remove users and groups\n", ""},
	} {
		form := Table([]byte(row.text), true, Hints{})
		got := ""
		if rows, err := form.Rows(strings.NewReader(row.text)); err == nil {
			got = strings.Join(rows.Columns(), "|")
			last := []string{}
			for {
				cells, err := rows.Next()
				if err != nil {
					if err != io.EOF {
						got = ""
					}
					break
				}
				last = slices.Clone(cells)
			}
			if got != "" {
				got += "\n" + strings.Join(last, "|")
			}
		}
		if got != row.want {
			t.Errorf("%s is\n%s\nwant\n%s\n%+v", name, got, row.want, form)
		}
	}
}
