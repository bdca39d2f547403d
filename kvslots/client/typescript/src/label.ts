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
    const os = process.getBuiltinModule?.("node:os");
    let user = "?";
    try {
      user = os?.userInfo().username ?? user;
    } catch {} // the machine does not know the user's name
    label = `${user}@${os?.hostname() ?? "?"}:${process.pid} ${process.argv?.[1]?.split(/[\\/]/).pop() ?? ""}`;
  }
  return label.replace(/[^\x20-\x7e]/g, "?").slice(0, 64).trim();
}
