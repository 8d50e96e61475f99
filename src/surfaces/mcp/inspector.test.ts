import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { projectRoot } from '../../../test/support/spawn.ts';

/** The official inspector, as a developer runs it. */
describe('the official inspector', () => {
  let platform: TestPlatform;
  const inspect = (query: string, ...args: string[]): Promise<string> =>
    new Promise((resolve, reject) => {
      const program = join(projectRoot, 'node_modules/.bin/mcp-inspector');
      const address = `${platform.addresses.admin}/mcp${query}`;
      const header = `masterkey: ${platform.masterKey}`;
      execFile(
        process.execPath,
        [program, '--cli', address, '--transport', 'http', '--header', header, ...args],
        { timeout: 60_000, maxBuffer: 16 * 1024 * 1024 },
        (error, stdout, stderr) => {
          if (error) reject(new Error(`${error.message}\n${stderr}`));
          else resolve(stdout);
        },
      );
    });

  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());

  test('lists tools, whose schemas are sound', async () => {
    const { tools } = JSON.parse(await inspect('?modules=all', '--method', 'tools/list')) as {
      tools: { name: string }[];
    };
    expect(tools.map(({ name }) => name)).toContain('post_authorization_relations_many');
  }, 90_000);

  test('calls a tool', async () => {
    const answer = JSON.parse(
      await inspect('', '--method', 'tools/call', '--tool-name', 'get_ready'),
    ) as {
      structuredContent: { data: { status: string } };
    };
    expect(answer.structuredContent.data.status).toBe('ready');
  }, 90_000);

  test('reads a document', async () => {
    expect(
      await inspect('', '--method', 'resources/read', '--uri', 'service://docs/api-guide'),
    ).toContain('How to use Penstock');
  }, 90_000);
});
