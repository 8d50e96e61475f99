// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are the variables of state files, not of this language
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testMasterKey } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { state } from './state.ts';

const template = 'Dear ${customer}, $${NAME} is ${SIGN}';

describe('variables in state files', () => {
  let platform: TestPlatform;
  let folder: string;
  const file = (name: string): string => join(folder, name);
  const run = async (args: readonly string[], environment: Record<string, string> = {}) => {
    const printed: string[] = [];
    const code = await state(args, {
      environment: {
        PENSTOCK_URL: platform.addresses.admin,
        MASTER_KEY: testMasterKey,
        ...environment,
      },
      isSeen: false,
      print: (text) => void printed.push(text),
    }).catch((error: Error) => {
      printed.push(error.message);
      return 1;
    });
    return { code, printed: printed.join('\n') };
  };
  const config = async (module: string) =>
    (await platform.admin.get(`/config/${module}`, { query: { reveal: 'true' } })).body.config;

  beforeAll(async () => {
    [platform, folder] = await Promise.all([createTestPlatform(), temporaryFolder('state')]);
    for (const part of ['configs', 'modules/communications', 'environments'])
      await mkdir(file(part), { recursive: true });
    await writeFile(
      file('configs/router.yaml'),
      'hostUrl: https://${HOST}/api\ncors: { origin: "${ORIGINS}", maxAge: "${MAX_AGE}" }\n',
    );
    await writeFile(
      file('configs/authentication.yaml'),
      'google: { clientSecret: { $secret: authentication.google.clientSecret } }\nredirectUris: { whitelistedUris: "${REDIRECTS}" }\n',
    );
    await writeFile(
      file('modules/communications/emailTemplates.yaml'),
      `- { name: Bill, subject: Bill, body: "${template}" }\n`,
    );
    await writeFile(
      file('environments/prod.yaml'),
      [
        'variables:',
        '  HOST: api.example.com',
        '  ORIGINS: https://${APP}',
        '  MAX_AGE: 60',
        '  REDIRECTS: [https://app.example.com/in, https://app.example.com/out]',
        '  SIGN: text',
        'secrets: { authentication.google.clientSecret: "${GOOGLE_SECRET}" }',
      ].join('\n'),
    );
  });
  afterAll(() => Promise.all([platform?.close(), folder && removeFolder(folder)]));

  it('are errors with their file and key where nothing sets them', async () => {
    const bare = await run(['plan', folder]);
    expect(bare.code).toBe(1);
    expect(bare.printed).toContain(`${file('configs/router.yaml')}:.hostUrl: HOST is not set`);
    expect(bare.printed).toContain(
      `${file('modules/communications/emailTemplates.yaml')}:.0.body: SIGN is not set`,
    );
    const half = await run(['plan', folder, '--env', 'prod'], { APP: 'app.example.com' });
    expect(half).toEqual({
      code: 1,
      printed: expect.stringContaining(
        'secrets.authentication.google.clientSecret: GOOGLE_SECRET is not set',
      ),
    });
    expect((await run(['plan', folder, '--env', 'nowhere'])).printed).toContain(
      'nowhere.yaml cannot be read',
    );
    expect((await run(['plan', folder, '--env', '../x'])).code).toBe(1);
  });

  it('take the values of the chosen environment, as what they are, and of the process', async () => {
    const environment = { APP: 'app.example.com', GOOGLE_SECRET: 'from-the-vault' };
    const applied = await run(['apply', folder, '--env', 'prod'], environment);
    expect(applied.printed).toContain('Applied: 1 document and 2 configurations.');
    expect(await config('router')).toMatchObject({
      hostUrl: 'https://api.example.com/api',
      cors: { origin: 'https://app.example.com', maxAge: 60 },
    });
    const { google, redirectUris } = await config('authentication');
    expect([google.clientSecret, redirectUris.whitelistedUris]).toEqual([
      'from-the-vault',
      ['https://app.example.com/in', 'https://app.example.com/out'],
    ]);
    const { text } = await platform.admin.get('/state/export', {
      query: { types: 'emailTemplates' },
    });
    expect(text).toContain('Dear ${customer}, ${NAME} is text');
    expect((await run(['plan', folder, '--env', 'prod'], environment)).code).toBe(0);
  });

  it('stay in the files when an export is told so, and are never made of plain text', async () => {
    const environment = { APP: 'app.example.com', GOOGLE_SECRET: 'x' };
    await platform.admin.patch('/config/router', { config: { cors: { maxAge: 61 } } });
    const exported = await run(
      ['export', folder, '--env', 'prod', '--keep-variables'],
      environment,
    );
    expect(exported.code).toBe(0);
    const router = await readFile(file('configs/router.yaml'), 'utf8');
    expect(router).toContain('hostUrl: https://${HOST}/api');
    expect(router).toContain('maxAge: ${MAX_AGE}');
    expect(await readFile(file('configs/authentication.yaml'), 'utf8')).toContain(
      'whitelistedUris: ${REDIRECTS}',
    );
    expect(exported.printed).toContain(
      `another value: ${file('configs/router.yaml')}:.cors.maxAge`,
    );
    expect(exported.printed).not.toContain('hostUrl');
    expect(await readFile(file('modules/communications/emailTemplates.yaml'), 'utf8')).toContain(
      template,
    );
    // Without that, what looks like a variable in the data is written as text, and comes back as it was.
    await run(['export', file('plain')], environment);
    expect(
      await readFile(file('plain/modules/communications/emailTemplates.yaml'), 'utf8'),
    ).toContain('Dear ${customer}, $${NAME} is text');
    expect((await run(['plan', file('plain')])).code).toBe(0);
  });
});
