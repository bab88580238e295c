"""A power cut: of a folder only that remains which was put on the disk. POSIX promises no more than
this: the content that a file had at its last fsync, under the names that its folder had at the
folder's own. Most disks keep more."""

import os
import shutil
from pathlib import Path


class Disk:
    """What is on the disk below a folder, while this process calls `Disk.fsync` for `os.fsync`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.synced: dict[int, bytes | dict[str, int]] = {}  # by the number of the inode
        self.opened: list[int] = []  # or another file would get the number of one that is removed
        self._fsync = os.fsync
        os.fsync = self.fsync

    def fsync(self, descriptor: int):
        self._fsync(descriptor)
        self.opened.append(os.dup(descriptor))
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        inode = os.fstat(descriptor).st_ino
        if path.is_dir():
            self.synced[inode] = {entry.name: entry.stat().st_ino for entry in path.iterdir()}
        else:
            self.synced[inode] = path.read_bytes()

    def cut(self):
        """Leave in the folder what is on the disk. A name whose file was never synced has an empty
        one."""
        remains = self.folder.with_name("remains")
        self._restore(self.folder.stat().st_ino, remains)
        shutil.rmtree(self.folder)
        remains.rename(self.folder)

    def _restore(self, inode: int, path: Path):
        content = self.synced.get(inode, b"")
        if isinstance(content, bytes):
            path.write_bytes(content)
            return
        path.mkdir()
        for name, below in content.items():
            self._restore(below, path / name)
