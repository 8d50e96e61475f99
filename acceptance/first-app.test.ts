/** The commands of the README, and of the guide that goes on from there, do what they say when pasted into a shell. */
import { execFile } from 'node:child_process';
import { readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { projectRoot, type SpawnedPlatform, spawnPlatform } from '../test/support/spawn.ts';
import { removeFolder, temporaryFolder } from '../test/support/temporary-folder.ts';

let folder: string;
let platform: SpawnedPlatform;
beforeAll(async () => {
  folder = await temporaryFolder('readme');
  platform = await spawnPlatform({ env: { MASTER_KEY: '', ADMIN_INITIAL_PASSWORD: '' } });
  await symlink(platform.dataDir, join(folder, '.penstock'));
}, 120_000);
afterAll(async () => {
  await platform?.dispose();
  await removeFolder(folder);
});

const textOf = (path: string) => readFile(join(projectRoot, path), 'utf8');

async function paste(commands: string): Promise<string> {
  const { client, admin } = platform.addresses;
  const script = commands
    .replaceAll('http://127.0.0.1:3000', client)
    .replaceAll('http://127.0.0.1:3030', admin);
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: folder,
    env: { ...process.env, FORCE_COLOR: '0' },
  });
  expect(stdout).not.toMatch(/\bstatus: [45]/);
  return stdout;
}

/** The blocks of the guide, as one text. */
async function guideCommands(): Promise<string> {
  const blocks = [
    ...(await textOf('docs/guides/getting-started.md')).matchAll(/^```bash\n([\s\S]*?)^```$/gm),
  ];
  expect(blocks.length).toBeGreaterThan(3);
  return blocks.map(([, code]) => code).join('');
}

it('the first app of the README works when pasted, and the guide goes on from there', async () => {
  const readme = await textOf('README.md');
  const commands = /<!-- first-app[^>]*-->\s*```bash\n([\s\S]*?)```/.exec(readme)?.[1] ?? '';
  expect(commands.match(/\bcurl\b/g)).toHaveLength(5);
  const said = await paste(`${commands}\necho THE GUIDE\n${await guideCommands()}`);
  const [app = '', guide = ''] = said.split('THE GUIDE');
  expect(app).toMatch(/documents: \[\n.*title: 'Hello, Penstock',\s+likes: 0,.*count: 1\b/s);
  // Four answers for people: a screen of lines, none of them long.
  const lines = app.split('\n');
  expect(lines.length).toBeLessThan(100);
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(200);

  // The list with its post, and the same comment found by a filter.
  expect(guide).toMatch(/text: 'First!',\s+post: \{.*title: 'Hello, Penstock'/s);
  expect(guide.match(/text: 'First!'/g)).toHaveLength(2);
  expect(guide).toMatch(/text: 'First, and happy',.*mood: null.*email: 'ada@example.com'/s);
}, 120_000);
