// The way in of all commands of package.json: checks what must be there, installs and builds, then runs the command.
// It runs before anything is installed, and says so on a Node.js that is too old: no dependency, no newer syntax here.
const REQUIRED_NODE = 20;

if (Number(process.versions.node.split(".")[0]) < REQUIRED_NODE) {
  console.error(
    `Workhorse needs Node.js ${REQUIRED_NODE} or newer; this is ${process.version} (${process.execPath}). Install a newer one: https://nodejs.org`,
  );
  process.exit(1);
}

import("./lib/commands.mjs").then(({ main }) => main(process.argv.slice(2)));
