/**
 * The providers of stores outside: S3 against a server that others wrote and one that is as strict as Amazon's, Azure
 * Blob Storage against Microsoft's emulator, Google Cloud Storage against a server that checks every token and signature.
 */
import { expect, test } from 'vitest';
import { startTestAzure } from '../../../../test/support/servers/azure.ts';
import {
  startGoogleStore,
  startS3Store,
  testAccess,
} from '../../../../test/support/servers/object-store.ts';
import { startTestS3 } from '../../../../test/support/servers/s3.ts';
import { createAzureProvider } from './azure.ts';
import { describeProvider } from './conformance.ts';
import { createGoogleProvider } from './google.ts';
import { createS3Provider } from './s3.ts';

const common = { name: 'aws', region: 'eu-central-1', usePathStyle: true } as const;

describeProvider(
  's3, strict',
  async () => {
    const { endpoint, close } = await startS3Store();
    return { provider: createS3Provider({ ...common, ...testAccess, endpoint }), close };
  },
  // Only Amazon itself is asked to; see below.
  { keepsContentType: true, lacks: ['a signed write replaces nothing'] },
);

describeProvider(
  's3, of others',
  async () => {
    const { endpoint, credentials, close } = await startTestS3();
    return { provider: createS3Provider({ ...common, ...credentials, endpoint }), close };
  },
  {
    keepsContentType: true,
    // s3rver 3.7 keeps objects under their names, reads `0-0` as no range, decodes copy sources half, ends no upload
    // in parts early, looks at no signature of version 4, and mixes the bodies of parallel puts.
    lacks: [
      'ranges',
      'copies',
      'every key',
      'lists',
      'a body of another length than its part',
      'an upload',
      'a signed read',
      'a signed write',
      'a signature',
      'of parallel puts',
    ],
  },
);

describeProvider(
  'azure',
  async () => {
    const { connectionString, close } = await startTestAzure();
    return { provider: createAzureProvider({ connectionString }), close };
  },
  { keepsContentType: true },
);

describeProvider(
  'google',
  async () => {
    const { endpoint, serviceAccount, close } = await startGoogleStore();
    const serviceAccountKeyJson = JSON.stringify(serviceAccount);
    return { provider: await createGoogleProvider({ serviceAccountKeyJson, endpoint }), close };
  },
  { keepsContentType: true },
);

test("an address of Amazon's takes one object", async () => {
  const provider = createS3Provider({ ...common, ...testAccess });
  const options = { expiresInSeconds: 60, contentType: 'text/plain' };
  const { url, headers } = await provider.signWrite({ bucket: 'bucket', key: 'once' }, options);
  expect(headers).toMatchObject({ 'if-none-match': '*' });
  expect(new URL(url).searchParams.get('X-Amz-SignedHeaders')).toContain('if-none-match');
  await provider.close();
});
