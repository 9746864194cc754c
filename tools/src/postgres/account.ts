import { stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, resolve } from "node:path";
import { runProcess } from "../process/run";

/** An account of the operating system, by its numbers. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** Unprivileged accounts that systems come with, in the order in which they are tried. */
const UNPRIVILEGED = ["nobody", "daemon"];

/**
 * The account that a PostgreSQL started by this process runs as: undefined for "the same one", or an existing
 * unprivileged account when this process is root, whom PostgreSQL refuses. No account is ever created.
 *
 * @throws {Error} If this process is root and the system has no unprivileged account.
 */
export async function serverAccount(): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) {
    return undefined;
  }
  for (const name of UNPRIVILEGED) {
    // `id` also knows the accounts that /etc/passwd does not list.
    const [uid, gid] = await Promise.all([askId("-u", name), askId("-g", name)]);
    if (uid !== undefined && gid !== undefined) {
      return { uid, gid };
    }
  }
  throw new Error(
    `PostgreSQL does not run as root, and none of the accounts ${UNPRIVILEGED.join(", ")} exists: run as another user`,
  );
}

async function askId(option: "-u" | "-g", name: string): Promise<number | undefined> {
  const env = { PATH: process.env.PATH ?? "/usr/bin:/bin" };
  const result = await runProcess("id", [option, name], { cwd: "/", env }).catch(() => undefined);
  return result?.code === 0 ? Number(result.stdout) : undefined;
}

/** Whether accounts other than the owner can enter a folder: it and all that it lies in must be open to them. */
export async function isOpenToOthers(folder: string): Promise<boolean> {
  for (let path = resolve(folder); ; path = dirname(path)) {
    const entry = await stat(path).catch(() => undefined);
    if (entry === undefined || (entry.mode & 0o001) === 0) {
      return false;
    }
    if (dirname(path) === path) {
      return true;
    }
  }
}

/**
 * A folder for temporary things that the server's account can enter: the system's, unless it is private.
 *
 * @throws {Error} If there is none.
 */
export async function temporaryFolder(account: Account | undefined): Promise<string> {
  if (account === undefined) {
    return tmpdir();
  }
  for (const folder of [tmpdir(), "/tmp", "/var/tmp"]) {
    if (await isOpenToOthers(folder)) {
      return folder;
    }
  }
  throw new Error(
    `PostgreSQL runs as account ${account.uid}, which can enter none of ${tmpdir()}, /tmp, /var/tmp: set TMPDIR to a folder that others can enter`,
  );
}
