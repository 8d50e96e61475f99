import { expect, test } from 'vitest';
import { signedHeaders } from './aws-signature.ts';

/** The example of AWS's own test suite: get-vanilla. */
test('signs as the published example is signed', () => {
  const headers = signedHeaders(
    { method: 'GET', url: 'https://example.amazonaws.com/', headers: {}, body: '' },
    {
      accessKeyId: 'AKIDEXAMPLE',
      secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
      region: 'us-east-1',
      service: 'service',
    },
    new Date('2015-08-30T12:36:00Z'),
  );
  expect(headers.authorization).toBe(
    'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
  );
});
