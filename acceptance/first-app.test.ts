/** The commands of the README do what the README says when they are pasted into a shell. */
import { execFile } from 'node:child_process';
import { readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { projectRoot, spawnPlatform } from '../test/support/spawn.ts';
import { removeFolder, temporaryFolder } from '../test/support/temporary-folder.ts';

it('the first app of the README works when pasted', { timeout: 120_000 }, async () => {
  const readme = await readFile(join(projectRoot, 'README.md'), 'utf8');
  const commands = /<!-- first-app[^>]*-->\s*```bash\n([\s\S]*?)```/.exec(readme)?.[1] ?? '';
  expect(commands.match(/\bcurl\b/g)).toHaveLength(5);

  const folder = await temporaryFolder('readme');
  const platform = await spawnPlatform({ env: { MASTER_KEY: '', ADMIN_INITIAL_PASSWORD: '' } });
  try {
    await symlink(platform.dataDir, join(folder, '.penstock'));
    const { client, admin } = platform.addresses;
    const script = commands
      .replaceAll('http://127.0.0.1:3000', client)
      .replaceAll('http://127.0.0.1:3030', admin);
    const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], {
      cwd: folder,
      env: { ...process.env, FORCE_COLOR: '0' },
    });
    expect(stdout).not.toMatch(/\bstatus: [45]/);
    expect(stdout).toMatch(/documents: \[\n.*title: 'Hello, Penstock',\s+likes: 0,.*count: 1\b/s);
    // Four answers for people: a screen of lines, none of them long.
    const lines = stdout.split('\n');
    expect(lines.length).toBeLessThan(100);
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(200);
  } finally {
    await platform.dispose();
    await removeFolder(folder);
  }
});
