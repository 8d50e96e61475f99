/** Files of records as a source: what stands in them is found with the record, by whom it may be read. */
import { strToU8, zipSync } from 'fflate';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { sendForm } from '../storage/requests.ts';

let platform: TestPlatform;
let ann: TestUser;
let bob: TestUser;

const docxType = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document';

/** A document of Word with these paragraphs. */
const docx = (paragraphs: readonly string[], filler = 0): Buffer => {
  const body = paragraphs.map((text) => `<w:p><w:r><w:t>${text}</w:t></w:r></w:p>`).join('');
  const document = `<?xml version="1.0"?><w:document><w:body>${body}${' '.repeat(filler)}</w:body></w:document>`;
  const types = `<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/word/document.xml" ContentType="${docxType}.main+xml"/></Types>`;
  return Buffer.from(
    zipSync({ '[Content_Types].xml': strToU8(types), 'word/document.xml': strToU8(document) }),
  );
};

/** A page with one line. */
const pdf = (line: string): Buffer => {
  const content = `BT /F1 12 Tf 72 720 Td (${line}) Tj ET`;
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
    `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
  ];
  let text = '%PDF-1.4\n';
  const places = objects.map((object, at) => {
    const place = text.length;
    text += `${at + 1} 0 obj\n${object}\nendobj\n`;
    return place;
  });
  const xref = text.length;
  const rows = places.map((place) => `${String(place).padStart(10, '0')} 00000 n \n`).join('');
  text += `xref\n0 6\n0000000000 65535 f \n${rows}trailer << /Size 6 /Root 1 0 R >>\nstartxref\n${xref}\n%%EOF`;
  return Buffer.from(text, 'latin1');
};

const ids = new Map<string, string>();
const upload = async (name: string, content: string | Buffer, type: string): Promise<string> => {
  const { status, body } = await sendForm(platform, ann, [name, content], { type });
  expect(status, JSON.stringify(body)).toBe(200);
  ids.set(name, body.id);
  return body.id;
};

beforeAll(async () => {
  platform = await createTestPlatform();
  [ann, bob] = [await platform.registerUser(), await platform.registerUser()];
  await platform.createSchema({
    name: 'Paper',
    fields: { title: 'String', main: { type: 'File' }, more: ['File'] },
    conduitOptions: { cms: { enabled: true }, authorization: { enabled: true } },
  } as Json);
  const made = await platform.admin.post('/embeddings/configs', {
    schemaName: 'Paper',
    sourceFields: ['title', 'main', 'more'],
    targetField: 'contents',
    provider: 'none',
    language: 'english',
  });
  expect(made.status, made.text).toBe(200);
  const html =
    '<!doctype html><html><head><title>skipped</title><style>walrus{}</style></head><body><h1>Otters</h1><p>swim &amp; dive</p><script>var giraffe = 1</script></body></html>';
  const papers = [
    { title: 'plain', main: await upload('notes.txt', 'A kangaroo jumps', 'text/plain') },
    { title: 'page', main: await upload('page.html', html, 'text/html') },
    {
      title: 'word',
      main: await upload('word.docx', docx(['An elephant', 'and a lynx']), docxType),
    },
    {
      title: 'portable',
      more: [await upload('a.pdf', pdf('The platypus lays eggs'), 'application/pdf')],
    },
    { title: 'broken', main: await upload('b.pdf', '%PDF-1.4 nothing more', 'application/pdf') },
    { title: 'bomb', main: await upload('c.docx', docx(['pangolin'], 60_000_000), docxType) },
    {
      title: 'picture',
      main: await upload('d.bin', Buffer.from([0, 1, 2, 3]), 'application/octet-stream'),
    },
  ];
  for (const paper of papers) {
    const answer = await ann.api.post('/database/Paper', paper);
    expect(answer.status, answer.text).toBe(200);
  }
  await waitFor(
    async () => {
      const { body } = await platform.admin.get('/embeddings/status');
      const { completed, failed } = body.generationQueue;
      return completed + failed >= papers.length;
    },
    { timeoutMs: 40_000, what: 'texts of files' },
  );
});
afterAll(() => platform.close());

const found = async (text: string, user: TestUser = ann): Promise<string[]> => {
  const body = { schemaName: 'Paper', mode: 'keyword', typos: false, text, userId: user.userId };
  const answer = await platform.admin.post('/embeddings/search', body);
  expect(answer.status, answer.text).toBe(200);
  return answer.body.hits.map(({ document }: Json) => document.title);
};

it('reads plain texts, pages, documents and PDF, and what is said in them to readers', async () => {
  expect(await found('kangaroo')).toEqual(['plain']);
  expect(await found('otter dive')).toEqual(['page']);
  expect(await found('giraffe or walrus or skipped')).toEqual([]);
  expect(await found('elephant lynx')).toEqual(['word']);
  expect(await found('platypus eggs')).toEqual(['portable']);
});

it('finds a record by its own words when its file is broken, a bomb, or of no kind that is read', async () => {
  for (const title of ['broken', 'bomb', 'picture']) expect(await found(title)).toEqual([title]);
  expect(await found('pangolin')).toEqual([]);
});

it('is for those alone who may read the record, and with it its file', async () => {
  expect(await found('kangaroo', bob)).toEqual([]);
  expect(await found('platypus', bob)).toEqual([]);
});

it('is for operators whose credential reaches files, also in the name of a user', async () => {
  const credential = async (...scopes: string[]) => {
    const { token } = (await platform.admin.post('/api-tokens', { name: 'reader', scopes })).body;
    return platform.adminAnonymous.with({ credential: token });
  };
  const narrow = await credential('embeddings', 'database', 'write');
  const wide = await credential('embeddings', 'database', 'storage', 'write');
  const body = { schemaName: 'Paper', mode: 'keyword', text: 'kangaroo', highlight: true };
  for (const more of [{}, { userId: ann.userId }]) {
    const asked = { ...body, ...more };
    const refused = { status: 403, body: { code: 'SCOPE_EXCEEDED' } };
    expect(await narrow.post('/embeddings/search', asked)).toMatchObject(refused);
    expect((await wide.post('/embeddings/search', asked)).body.hits).toHaveLength(1);
  }
  const query = { text: 'kangaroo', kinds: 'record' };
  expect((await narrow.get('/search', { query })).body).toMatchObject({ results: [] });
  expect((await wide.get('/search', { query })).body.results).toHaveLength(1);
  const config = { schemaName: 'Paper', targetField: 'other', provider: 'none', backfill: 'none' };
  for (const [sourceFields, status] of [
    [['title', 'main'], 403],
    [['title'], 200],
  ] as const) {
    const answer = await narrow.post('/embeddings/configs', { ...config, sourceFields });
    expect(answer.status, answer.text).toBe(status);
    if (status === 200) await platform.admin.delete(`/embeddings/configs/${answer.body.config.id}`);
  }
});

it('follows the content of a file, and its end', async () => {
  const id = ids.get('notes.txt');
  const data = Buffer.from('Now it is a wombat').toString('base64');
  const changed = await platform.admin.patch(`/storage/files/${id}`, { data });
  expect(changed.status, changed.text).toBe(200);
  await waitFor(async () => (await found('wombat')).length === 1);
  expect(await found('kangaroo')).toEqual([]);
});

it('refuses fields that hold neither texts nor files', async () => {
  await platform.createSchema({
    name: 'Other',
    fields: { title: 'String', paper: { type: 'Relation', model: 'Paper' } },
  } as Json);
  const answer = await platform.admin.post('/embeddings/configs', {
    schemaName: 'Other',
    sourceFields: ['paper'],
    targetField: 'contents',
  });
  expect([answer.status, answer.body.errors?.[0]?.path]).toEqual([400, 'sourceFields.0']);
});
