#include "transport/testing/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/check.h"

namespace tessera::transport::testing {
namespace {

void add_extension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  TESSERA_CHECK(extension != nullptr, "extension '{}'", value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* new_certificate(EVP_PKEY* key, const std::string& name, long serial) {
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 24L * 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

template <typename Write>
std::string write_file(const std::string& path, Write write) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  TESSERA_CHECK(file != nullptr, "cannot write {}", path);
  TESSERA_CHECK(write(file) == 1, "cannot write {}", path);
  std::fclose(file);
  return path;
}

}  // namespace

struct Authority::State {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = new_certificate(key, "authority of a test", 1);
};

Authority::Authority(std::string folder) : folder_(std::move(folder)), state_(new State) {
  std::filesystem::create_directories(folder_);
  X509_set_issuer_name(state_->certificate, X509_get_subject_name(state_->certificate));
  add_extension(state_->certificate, state_->certificate, NID_basic_constraints,
                "critical,CA:TRUE");
  X509_sign(state_->certificate, state_->key, EVP_sha256());
}

Authority::~Authority() {
  X509_free(state_->certificate);
  EVP_PKEY_free(state_->key);
  delete state_;
}

TlsFiles Authority::sign(const std::string& common_name, const std::string& host) {
  return sign_until(common_name, host, 24L * 3600);
}

TlsFiles Authority::sign_expired(const std::string& common_name) {
  return sign_until(common_name, "localhost", -3600);
}

// So many seconds from now.
TlsFiles Authority::sign_until(const std::string& common_name, const std::string& host,
                               long seconds) {
  const std::string base = folder_ + "/" + std::to_string(++count_);
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = new_certificate(key, common_name, 1 + count_);
  X509_gmtime_adj(X509_getm_notAfter(certificate), seconds);
  X509_gmtime_adj(X509_getm_notBefore(certificate), std::min(-3600L, seconds - 3600));
  X509_set_issuer_name(certificate, X509_get_subject_name(state_->certificate));
  const std::string names = host == "localhost"       ? "DNS:localhost,IP:127.0.0.1,IP:::1"
                            : host.starts_with("IP:") ? host
                                                      : "DNS:" + host;
  add_extension(certificate, state_->certificate, NID_subject_alt_name, names);
  X509_sign(certificate, state_->key, EVP_sha256());
  const TlsFiles files{
      .authority = write_file(base + ".authority.pem",
                              [&](std::FILE* f) { return PEM_write_X509(f, state_->certificate); }),
      .certificate =
          write_file(base + ".pem", [&](std::FILE* f) { return PEM_write_X509(f, certificate); }),
      .key = write_file(base + ".key.pem", [&](std::FILE* f) {
        return PEM_write_PrivateKey(f, key, nullptr, nullptr, 0, nullptr, nullptr);
      })};
  std::filesystem::permissions(files.key, std::filesystem::perms::owner_read);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return files;
}

}  // namespace tessera::transport::testing
