import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { testEnvironment } from '../../test/support/platform.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { readSettings } from '../kernel/settings/settings.ts';
import { checkMachine } from './machine.ts';

it.runIf(process.platform === 'linux')('sees where no data folder can be', async () => {
  const folder = await temporaryFolder('machine');
  try {
    const file = join(folder, 'a-file');
    await writeFile(file, '');
    for (const [path, severity, message] of [
      [join(folder, 'not', 'yet'), 'note', 'the first start makes it'],
      [file, 'problem', 'is a file, or lies below one'],
      [join(file, 'below', 'it'), 'problem', 'is a file, or lies below one'],
      [join(folder, 'x'.repeat(300)), 'problem', 'ENAMETOOLONG'],
    ] as const) {
      const findings = await checkMachine(readSettings(testEnvironment(path, undefined)));
      expect(findings.find(({ subject }) => subject === 'Data folder')).toMatchObject({
        severity,
        message: expect.stringContaining(message),
      });
    }
  } finally {
    await removeFolder(folder);
  }
});
