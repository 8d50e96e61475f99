import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { visitStore } from './store.ts';

let platform: TestPlatform;

async function visit(reset: boolean): Promise<string> {
  const lines: string[] = [];
  const { client, admin } = platform.addresses;
  const settings = { clientOrigin: client, adminOrigin: admin, masterKey: platform.masterKey };
  await visitStore(settings, { reset, print: (line) => void lines.push(line) });
  return lines.join('\n');
}

beforeAll(async () => {
  platform = await createTestPlatform();
});

afterAll(() => platform.close());

describe('the music store', () => {
  it('is loaded through the interfaces and read by a signed-in user', async () => {
    const printed = await visit(false);
    expect(printed).toContain('Made 11 schemas');
    expect(printed).toContain('Loaded 15607 rows');
    expect(printed).toContain('The five longest of 3503 tracks');
    expect(printed).toContain('The books balance: 2240 lines make 412 invoices');
    expect(printed).toContain('Customers without signing in: 401');
  });

  it('is found in place by a second run', async () => {
    const printed = await visit(false);
    expect(printed).toContain('The music store is there already');
    expect(printed).not.toContain('Loaded');
  });

  it('starts clean when asked to', async () => {
    expect(await visit(true)).toContain('Loaded 15607 rows');
  });

  it('says what to do when rows are missing', async () => {
    const user = await platform.registerUser();
    const page = (await user.api.get('/database/InvoiceLine?limit=1')).body as {
      documents: { _id: string }[];
    };
    await user.api.delete(`/database/InvoiceLine/${page.documents[0]?._id}`);
    await expect(visit(false)).rejects.toThrow('InvoiceLine 2239 of 2240');
  });
});
