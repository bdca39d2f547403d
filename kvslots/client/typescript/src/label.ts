interface Program {
  pid?: number;
  argv?: string[];
  getBuiltinModule?(name: "node:os"): { userInfo(): { username: string }; hostname(): string } | undefined;
}

/** `user@host:pid` and the program's name, without its arguments, which may be secret; of a web page, its host. */
export function defaultLabel(): string {
  const { process, location, Deno } = globalThis as { process?: Program; location?: { host: string }; Deno?: { pid: number } };
  let label = `${location?.host ?? ""} web page`;
  if (Deno) label = `deno:${Deno.pid}`; // more needs permissions
  else if (process?.pid) {
    let who = "?@?";
    try {
      const os = process.getBuiltinModule?.("node:os");
      if (os) who = `${os.userInfo().username}@${os.hostname()}`;
    } catch {} // the user has no name
    label = `${who}:${process.pid} ${process.argv?.[1]?.split(/[\\/]/).pop() ?? ""}`;
  }
  return label.replace(/[^\x20-\x7e]/g, "?").slice(0, 64).trim();
}
