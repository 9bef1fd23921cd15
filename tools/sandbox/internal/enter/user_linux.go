package enter

import "syscall"

// mapUser gives this process its own user and group in its new user namespace. The process
// that started it could do that, too, but would have to copy its memory for that (fork): the
// child could not share it until the parent had written the maps.
func mapUser(s *Spec) {
	must("refuse setgroups", writeFile("/proc/self/setgroups", "deny"))
	must("map the user", writeFile("/proc/self/uid_map", decimal(s.User)+" "+decimal(s.User)+" 1"))
	must("map the group", writeFile("/proc/self/gid_map", decimal(s.Group)+" "+decimal(s.Group)+" 1"))
}

func writeFile(path, text string) error {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	_, err = syscall.Write(fd, []byte(text))
	return err
}

func decimal(n uint64) string {
	e := encoder{}
	e.num(&n)
	return string(e.out[:len(e.out)-1])
}
