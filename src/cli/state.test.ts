import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exampleSecrets, fillState } from '../../acceptance/state-example.ts';
import { testMasterKey } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { state } from './state.ts';

describe('penstock state', () => {
  let source: TestPlatform;
  let target: TestPlatform;
  let folder: string;
  const run = async (
    args: readonly string[],
    { to = target, answer }: { to?: TestPlatform; answer?: string } = {},
  ) => {
    let printed = '';
    const code = await state(args, {
      environment: { PENSTOCK_URL: to.addresses.admin, MASTER_KEY: testMasterKey },
      isSeen: false,
      print: (text) => {
        printed += `${text}\n`;
      },
      ...(answer !== undefined && { ask: async () => answer }),
    });
    return { code, printed };
  };
  const exported = async (platform: TestPlatform): Promise<string> =>
    (await platform.admin.get('/state/export')).text;

  beforeAll(async () => {
    [source, target, folder] = await Promise.all([
      createTestPlatform(),
      createTestPlatform(),
      temporaryFolder('state'),
    ]);
    await fillState(source.admin);
    await writeFile(join(folder, 'secrets.json'), JSON.stringify(exampleSecrets));
  });
  afterAll(async () => {
    await Promise.all([source?.close(), target?.close(), folder && removeFolder(folder)]);
  });

  it('writes a folder with one file per type, plans, applies, and finds nothing more to do', async () => {
    const files = join(folder, 'store');
    expect(await run(['export', files], { to: source })).toMatchObject({ code: 0 });
    expect(await readFile(join(files, 'modules/authorization/roles.yaml'), 'utf8')).toContain(
      'name: editor',
    );
    const secrets = ['--secrets-file', join(folder, 'secrets.json')];

    const plan = await run(['plan', files, ...secrets]);
    expect(plan.code).toBe(2);
    expect(plan.printed).toContain('+ database schemas Artist');
    expect(plan.printed).toContain('    cors.origin: "*" -> "https://app.example.com"');
    for (const secret of Object.values(exampleSecrets)) expect(plan.printed).not.toContain(secret);

    expect((await run(['apply', files, '--dry-run', ...secrets])).code).toBe(0);
    expect(await exported(target)).not.toBe(await exported(source));
    expect((await run(['apply', files, ...secrets])).code).toBe(0);
    expect(await exported(target)).toBe(await exported(source));
    expect(await run(['plan', files])).toEqual({
      code: 0,
      printed: 'Nothing to do: the platform is as the files say.\n',
    });
    expect((await run(['apply', files])).code).toBe(0);
  });

  it.each(['json', 'yaml'])(
    'takes one file of %s too, with colours for whoever wants them',
    async (type) => {
      const file = join(folder, `store.${type}`);
      await run(['export', file, '--modules', 'authorization'], { to: source });
      await target.admin.patch('/config/authorization', { config: { maxBatch: 7 } });
      const { code, printed } = await run(['plan', file, '--color']);
      expect(code).toBe(2);
      expect(printed).toContain('\u001b[33m~ authorization configuration\u001b[0m');
      expect((await run(['apply', file])).code).toBe(0);
    },
  );

  it('takes nothing away without a yes', async () => {
    const file = join(folder, 'roles.json');
    await writeFile(file, JSON.stringify({ modules: { authorization: { roles: [] } } }));
    await expect(run(['apply', file, '--prune'])).rejects.toThrow(
      /1 thing would be taken away.*--yes/,
    );
    expect(await run(['apply', file, '--prune'], { answer: 'no' })).toMatchObject({ code: 1 });
    expect(
      (await target.admin.get('/authorization/roles', { query: { search: 'editor' } })).body.count,
    ).toBe(1);
    const { code, printed } = await run(['apply', file, '--prune'], { answer: 'yes' });
    expect({ code, printed }).toMatchObject({
      code: 0,
      printed: expect.stringContaining('- authorization roles editor'),
    });
    expect(
      (await target.admin.get('/authorization/roles', { query: { search: 'editor' } })).body.count,
    ).toBe(0);
  });

  it('says what is wrong in one message', async () => {
    const file = join(folder, 'wrong.yaml');
    await writeFile(file, 'modules:\n  authorization:\n    roles: [{ name: 1 }]\n');
    await expect(run(['plan', file])).rejects.toThrow(
      /Refused \(400\):\n {2}modules\.authorization\.roles\.0\.name: must be a string/,
    );
    await writeFile(file, 'modules: [');
    await expect(run(['plan', file])).rejects.toThrow(/wrong\.yaml is not valid/);
    await expect(run(['plan', join(folder, 'nowhere')])).rejects.toThrow(
      /cannot be read \(ENOENT\)/,
    );
    await expect(run(['plan'])).rejects.toThrow(/^Usage/);
    await expect(run(['plan', file, '--fast'])).rejects.toThrow(/--fast/);
    await expect(
      state(['plan', file], { environment: {}, isSeen: false, print: () => undefined }),
    ).rejects.toThrow(/PENSTOCK_TOKEN/);
    await rm(file);
    await writeFile(file, 'modules: {}');
    // The port of the platform's own environment is known to its commands.
    for (const dead of [{ PENSTOCK_URL: 'http://127.0.0.1:1' }, { ADMIN_HTTP_PORT: '1' }]) {
      const environment = { ...dead, MASTER_KEY: 'x' };
      await expect(
        state(['plan', file], { environment, isSeen: false, print: () => undefined }),
      ).rejects.toThrow(/127\.0\.0\.1:1 does not answer/);
    }
  });
});
