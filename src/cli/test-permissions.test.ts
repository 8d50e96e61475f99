import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testPermissions } from './test-permissions.ts';

describe('penstock test permissions', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'penstock-permissions-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const run = async (...args: string[]) => {
    let printed = '';
    const code = await testPermissions(args, (text) => {
      printed += text;
    });
    return { code, printed };
  };
  const file = async (name: string, text: string): Promise<string> => {
    const path = join(folder, name);
    await writeFile(path, text);
    return path;
  };
  const example = fileURLToPath(
    new URL('../../examples/permissions/documents.yaml', import.meta.url),
  );

  it('answers 0 when everything holds', async () => {
    const { code, printed } = await run('permissions', example);
    expect(code).toBe(0);
    expect(printed).toMatch(/^ok .*documents\.yaml\n {2}14 of 14 assertions hold\n$/);
  });

  it('answers 1 when something does not, and goes on with the other files', async () => {
    const wrong = await file(
      'wrong.json',
      '{"model": {"User": null}, "tests": [{"name": "no", "allowed": ["User:a fly User:b"]}]}',
    );
    const { code, printed } = await run('permissions', wrong, example);
    expect(code).toBe(1);
    expect(printed).toContain(`FAILED ${wrong}`);
    expect(printed).toContain(`ok ${example}`);
  });

  it('names the problems of a file', async () => {
    const { code, printed } = await run(
      'permissions',
      await file('faults.yaml', 'model: {Doc: {relations: {a: [Ghost]}}}\ntests: [{name: x}]'),
    );
    expect(code).toBe(1);
    expect(printed).toContain('model.Doc.relations.a[0]: no type is called "Ghost"');
  });

  it('says what it cannot read', async () => {
    await expect(run('permissions', join(folder, 'absent.yaml'))).rejects.toThrow(
      'cannot be read (ENOENT)',
    );
    await expect(run('permissions', await file('broken.yaml', 'a: [b'))).rejects.toThrow(
      'is not valid YAML',
    );
    const aliases = [
      'a: &a [x, x, x, x, x, x, x, x, x, x, x]',
      'b: &b [*a, *a, *a, *a, *a, *a, *a, *a]',
      'c: &c [*b, *b, *b, *b, *b, *b]',
    ];
    const growing = await file(
      'growing.yaml',
      [...aliases, 'tests: [*c, *c, *c, *c, *c]'].join('\n'),
    );
    await expect(run('permissions', growing)).rejects.toThrow('is not valid YAML');
    await expect(run('permissions')).rejects.toThrow('Usage:');
    await expect(run('something', example)).rejects.toThrow('Usage:');
  });
});
