#include "tools/cluster/certificate.h"

#include <fmt/format.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>

#include "base/input_file.h"

namespace tessera::tools {
namespace {

struct FreeOpenSsl {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
};

std::int64_t unix_of(const ASN1_TIME* time) {
  std::tm utc{};
  return ASN1_TIME_to_tm(time, &utc) == 1 ? static_cast<std::int64_t>(timegm(&utc)) : 0;
}

std::string subject_of(const X509* certificate) {
  const std::unique_ptr<BIO, FreeOpenSsl> text(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0, XN_FLAG_ONELINE);
  char* bytes = nullptr;
  const auto size = BIO_get_mem_data(text.get(), &bytes);
  return size > 0 ? std::string(bytes, static_cast<std::size_t>(size)) : "";
}

}  // namespace

Result<CertificateTimes> read_certificate_times(const std::string& path) {
  constexpr std::int64_t kFileBytesMax = 1 << 20;
  const auto bytes = read_input(path, {.bytes_max = kFileBytesMax});
  if (!bytes.ok())
    return bytes.error().with_context(fmt::format("cannot read certificate '{}'", path));
  const std::unique_ptr<BIO, FreeOpenSsl> bio(
      BIO_new_mem_buf(bytes->data(), static_cast<int>(bytes->size())));
  CertificateTimes first;
  for (;;) {
    const std::unique_ptr<X509, FreeOpenSsl> certificate(
        PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (certificate == nullptr) break;
    const std::int64_t until = unix_of(X509_get0_notAfter(certificate.get()));
    if (!first.subject.empty() && until >= first.until_unix) continue;
    first = {.subject = subject_of(certificate.get()),
             .from_unix = unix_of(X509_get0_notBefore(certificate.get())),
             .until_unix = until};
    if (first.subject.empty()) first.subject = "no name";
  }
  if (!first.subject.empty()) return first;
  return Error{ErrorCode::kInvalidModel, fmt::format("'{}' has no certificate in PEM form", path)};
}

}  // namespace tessera::tools
