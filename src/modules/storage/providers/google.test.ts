/** Google Cloud Storage against a server that answers as it does, and checks every token and signature. */
import { startGoogleStore } from '../../../../test/support/servers/object-store.ts';
import { describeProvider } from './conformance.ts';
import { createGoogleProvider } from './google.ts';

describeProvider(
  'google',
  async () => {
    const { endpoint, serviceAccount, close } = await startGoogleStore();
    const serviceAccountKeyJson = JSON.stringify(serviceAccount);
    return { provider: await createGoogleProvider({ serviceAccountKeyJson, endpoint }), close };
  },
  { keepsContentType: true },
);
